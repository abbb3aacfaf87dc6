/* How the search ranks what it finds: a class or function that has exactly this name, then sections whose title
   it is, then pages, first those with most titles that contain it, and last other names of the library. */
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  operators: ["why-does-my-job-wait", "command-line", "reading-dumps"],

  titlesWith: (page, words) => {
    const { alltitles, docnames } = Search._index;
    return Object.entries(alltitles).filter(([title, places]) => {
      const lower = title.toLowerCase();
      return words.every((word) => lower.includes(word))
        && places.some(([number]) => docnames[number] === page);
    }).length;
  },

  score: ([page, title, _anchor, description, score, _file, kind]) => {
    const asked = (new URLSearchParams(window.location.search).get("q") || "").trim().toLowerCase();
    const guide = page.startsWith("reference/") ? 0 : 100;
    const operators = Scorer.operators.includes(page) ? 25 : 0;
    if (kind === "title") return 300 + score + guide + operators;
    if (kind === "text") {
      const titles = Math.min(Scorer.titlesWith(page, asked.split(/\s+/)), 4);
      return 200 + score + guide + operators + 20 * titles;
    }
    const exact = title.toLowerCase().split(".").pop() === asked;
    return score + (exact && /^Python (class|function|exception|protocol)/.test(description) ? 1000 : 0);
  },
};
