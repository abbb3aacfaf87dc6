"""Which devices serve a task: scenarios, and the search beside all allocations that there are."""

from __future__ import annotations

from itertools import chain, combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import SnapshotError, Taint, TaintEffect, Toleration, TolerationOperator
from batchsched.devices import (
    CapacityPolicy,
    CounterSet,
    Device,
    DeviceClaim,
    DeviceConstraint,
    DevicePick,
    DeviceRequest,
    Milli,
    allocate,
)
from batchsched.errors import ArgumentError


def claim(*requests: DeviceRequest, constraints: tuple[DeviceConstraint, ...] = ()) -> DeviceClaim:
    return DeviceClaim(name="c", requests=requests, constraints=constraints)


def gpus(count: int, **fields: object) -> list[Device]:
    return [Device(name=f"g{n}", **fields) for n in range(count)]  # type: ignore[arg-type]


def shared(count: int) -> list[Device]:
    return gpus(count, capacity={"milli": 1000}, shared=True)


def held(name: str, milli: int | None = None) -> DevicePick:
    amounts = None if milli is None else {"milli": milli}
    return DevicePick(claim="", request="", device=("", "", name), amounts=amounts)


def ask(milli: int | None = None, count: int = 1) -> DeviceClaim:
    capacity = {} if milli is None else {"milli": milli}
    return claim(DeviceRequest(name="r", count=count, capacity=capacity))


def names(picks: tuple[DevicePick, ...] | None) -> list[str] | None:
    return None if picks is None else [pick.device[2] for pick in picks]


def test_a_part_of_a_device_goes_where_that_much_is_left():
    halves = [held("g0", 500), held("g1", 500)]
    assert allocate([ask()], shared(2), held=halves) is None
    assert names(allocate([ask(500)], shared(2), held=halves)) == ["g0"]
    assert names(allocate([ask(500, count=2)], shared(2), held=halves)) == ["g0", "g1"]


@pytest.mark.parametrize(("order", "first"), [("listed", "g0"), ("tight", "g2"), ("spread", "g0")])
def test_the_order_says_which_device_is_tried_first(order, first):
    taken = [held("g1", 400), held("g2", 700)]
    assert names(allocate([ask(300)], shared(3), held=taken, order=order)) == [first]


def test_a_choice_is_undone_for_a_later_request():
    of_node = [
        Device(name=f"g{n}", driver="d", capacity={"memory": size << 30})
        for n, size in enumerate((2, 1))
    ]
    large = 'device.capacity["d"].memory.compareTo(quantity("2Gi")) >= 0'
    both = claim(
        DeviceRequest(name="a", capacity={"memory": 1 << 30}),
        DeviceRequest(name="b", select=(large,)),
    )
    assert names(allocate([both], of_node)) == ["g1", "g0"]


def test_devices_that_must_have_a_value_in_common():
    of_node = [Device(name=f"g{n}", attributes={"numa": n in (1, 2)}) for n in range(4)]
    pair = claim(DeviceRequest(name="r", count=2), constraints=(DeviceConstraint(same="numa"),))
    assert names(allocate([pair], of_node)) == ["g0", "g3"]
    assert names(allocate([pair], of_node, held=[held("g0")])) == ["g1", "g2"]


def test_devices_that_must_have_different_values():
    of_node = [Device(name=f"g{n}", attributes={"rail": rail}) for n, rail in enumerate("aba")]
    apart = (DeviceConstraint(distinct="rail"),)
    two, three = (
        claim(DeviceRequest(name="r", count=count), constraints=apart) for count in (2, 3)
    )
    assert names(allocate([two], of_node)) == ["g0", "g1"]
    assert allocate([three], of_node) is None


def test_sets_of_values_are_compared_as_sets_and_true_is_not_one():
    of_node = [
        Device(name="g0", attributes={"x": (1, 2)}),
        Device(name="g1", attributes={"x": True}),
        Device(name="g2", attributes={"x": (2, 3)}),
    ]
    two = DeviceRequest(name="r", count=2)
    same = claim(two, constraints=(DeviceConstraint(same="x"),))
    distinct = claim(two, constraints=(DeviceConstraint(distinct="x"),))
    assert names(allocate([same], of_node)) == ["g0", "g2"]
    assert names(allocate([distinct], of_node)) == ["g0", "g1"]


def test_the_first_alternative_that_can_be_had_is():
    of_node = [Device(name=f"g{n}", driver="d", attributes={"m": m}) for n, m in enumerate("ATT")]
    a, t = (f'device.attributes["d"].m == "{m}"' for m in "AT")
    either = claim(
        DeviceRequest(
            name="r",
            alternatives=(
                DeviceRequest(name="one", select=(a,)),
                DeviceRequest(name="two", count=2, select=(t,)),
            ),
        )
    )
    [pick] = allocate([either], of_node) or ()
    assert (pick.request, pick.device) == ("r/one", ("d", "", "g0"))
    taken = DevicePick(claim="", request="", device=("d", "", "g0"))
    assert names(allocate([either], of_node, held=[taken])) == ["g1", "g2"]


def test_all_means_each_that_is_selected():
    everything = claim(DeviceRequest(name="r", count="all"))
    assert names(allocate([everything], gpus(2))) == ["g0", "g1"]
    assert allocate([everything], gpus(2), held=[held("g1")]) is None
    assert allocate([everything], []) is None
    assert allocate([everything], gpus(2), closed_pools=[("x", "y")]) is None
    # What is shared and has too little left is not one of them; what is too small is.
    half = claim(DeviceRequest(name="r", count="all", capacity={"milli": 500}))
    assert names(allocate([half], shared(2), held=[held("g0", 600)])) == ["g1"]
    small = [Device(name="g0", capacity={"milli": 100}), *shared(2)[1:]]
    assert allocate([half], small) is None


def partitions() -> tuple[list[Device], list[CounterSet]]:
    shapes = [("1g", 7, 1, 1), ("3g", 2, 3, 4), ("7g", 1, 7, 8)]
    of_node = [
        Device(
            name=f"gpu{gpu}-{shape}-{n}",
            driver="d",
            pool="p",
            attributes={"shape": shape},
            counters={f"gpu{gpu}": {"slices": slices, "memory": memory}},
        )
        for gpu in range(2)
        for shape, count, slices, memory in shapes
        for n in range(count)
    ]
    sets = [
        CounterSet(name=f"gpu{gpu}", driver="d", pool="p", counters={"slices": 7, "memory": 8})
        for gpu in range(2)
    ]
    return of_node, sets


def test_partitions_draw_on_the_counters_of_their_device():
    of_node, sets = partitions()

    def of(shape: str, taken: list[DevicePick]) -> DevicePick | None:
        selector = f'device.attributes["d"].shape == "{shape}"'
        asked = claim(DeviceRequest(name="r", select=(selector,)))
        found = allocate([asked], of_node, sets, held=taken)
        return found[0] if found else None

    taken: list[DevicePick] = []
    for shape in ["1g"] * 7 + ["7g"]:
        pick = of(shape, taken)
        assert pick is not None
        taken.append(pick)
    assert [pick.device[2][:4] for pick in taken] == ["gpu0"] * 7 + ["gpu1"]
    assert of("1g", taken) is None


def test_counters_count_what_other_nodes_hold_of_the_pool():
    counters = [CounterSet(name="s", counters={"n": 2})]
    here = [Device(name="g0", counters={"s": {"n": 1}})]
    there = [Device(name="far", counters={"s": {"n": 2}})]
    assert allocate([ask()], here, counters, everywhere=there) is not None
    assert allocate([ask()], here, counters, everywhere=there, held=[held("far")]) is None


def test_a_shared_device_draws_on_its_counters_once():
    of_node = gpus(1, capacity={"milli": 1000}, shared=True, counters={"s": {"n": 1}})
    counters = [CounterSet(name="s", counters={"n": 1})]
    assert names(allocate([ask(300)], of_node, counters, held=[held("g0", 300)])) == ["g0"]


def test_tainted_devices_are_for_those_who_tolerate_it():
    taint = Taint(key="broken", effect=TaintEffect.NO_SCHEDULE)
    of_node = [Device(name="g0", taints=(taint,)), Device(name="g1")]
    tolerant = DeviceRequest(
        name="r", tolerations=(Toleration(operator=TolerationOperator.EXISTS),)
    )
    assert names(allocate([ask()], of_node)) == ["g1"]
    assert names(allocate([claim(tolerant)], of_node)) == ["g0"]
    assert allocate([ask(count=2)], of_node) is None


def test_an_admin_request_holds_nothing_and_hinders_nobody():
    looking = claim(DeviceRequest(name="r", admin=True))
    [pick] = allocate([looking], gpus(1), held=[held("g0")]) or ()
    assert pick.admin
    assert names(allocate([ask()], gpus(1), held=[pick])) == ["g0"]
    both = claim(DeviceRequest(name="a", admin=True), DeviceRequest(name="b"))
    assert names(allocate([both], gpus(2))) == ["g0", "g1"]
    assert allocate([both], gpus(1)) is None


@pytest.mark.parametrize(("asked", "amount"), [(None, 2), (1, 2), (3, 4), (5, None)])
def test_what_is_asked_is_rounded_up_as_the_policy_says(asked, amount):
    policy = CapacityPolicy(default=2, min=2, step=2, max=4)
    of_node = gpus(1, capacity={"milli": 4}, policies={"milli": policy}, shared=True)
    found = allocate([ask(asked)], of_node)
    assert (None if found is None else found[0].amounts) == (
        None if amount is None else {"milli": amount}
    )


def test_an_expression_without_an_answer_does_not_match():
    of_node = [
        Device(name="g0", driver="d"),
        Device(name="g1", driver="d", attributes={"model": "A"}),
    ]
    for text, found in [('{} == "A"', ["g1"]), ('!({} == "A")', None), ("{} == 3", None)]:
        selector = text.format('device.attributes["d"].model')
        assert (
            names(allocate([claim(DeviceRequest(name="r", select=(selector,)))], of_node)) == found
        )


def test_thousandths_are_of_each_device_itself():
    of_node = [
        Device(name=f"g{n}", capacity={"milli": size}, shared=True)
        for n, size in enumerate((80, 16))
    ]
    half = claim(DeviceRequest(name="r", count=2, capacity={"milli": Milli(500)}))
    found = allocate([half], of_node) or ()
    assert [pick.amounts for pick in found] == [{"milli": 40}, {"milli": 8}]


def test_pools_that_wait_for_conditions_come_last():
    of_node = [
        Device(name="a", pool="a"),
        Device(name="b", pool="a", conditions=("Attached",)),
        Device(name="z", pool="z"),
    ]
    assert names(allocate([ask(count=3)], of_node)) == ["z", "a", "b"]


def test_what_is_held_of_unknown_devices_counts_nowhere():
    assert names(allocate([ask()], gpus(1), held=[held("gone")])) == ["g0"]


def test_a_device_of_which_too_much_is_held_is_full():
    assert allocate([ask(0)], shared(1), held=[held("g0", 1100)]) is None


def test_a_claim_has_at_most_32_devices():
    everything = DeviceRequest(name="a", count="all")
    assert allocate([claim(everything)], gpus(32)) is not None
    assert allocate([claim(everything)], gpus(33)) is None
    with pytest.raises(ArgumentError, match="need 33 devices; a claim has at most 32"):
        allocate([claim(DeviceRequest(name="a", count=32), everything)], gpus(40))


def test_a_search_ends_after_so_many_devices():
    model = DeviceRequest(name="r", count=2)
    never = claim(model, constraints=(DeviceConstraint(same="x"),))
    of_node = [Device(name=f"g{n}", attributes={"x": n}) for n in range(30)]
    of_node.append(Device(name="last", attributes={"x": 29}))
    assert names(allocate([never], of_node)) == ["g29", "last"]
    assert allocate([never], of_node, tries=100) is None


def test_a_selector_that_raises_is_named():
    def wrong(_device: Device) -> bool:
        raise KeyError("model")

    asked = claim(DeviceRequest(name="r", select=(wrong,)))
    with pytest.raises(SnapshotError, match=r"claims\['c'\].requests\['r'\].select\[0\]: raised"):
        allocate([asked], gpus(1))


def test_an_attribute_has_one_name() -> None:
    twice = Device(name="g", driver="d", attributes={"x": 1, "d/x": 2})
    with pytest.raises(ArgumentError, match=r"devices\[0\].attributes: has both 'x' and 'd/x'"):
        allocate([], [twice])


def test_all_faults_are_told_at_once():
    wrong = Device(
        name="g",
        driver="d",
        attributes={"x": 1, "d/x": 1.5},  # type: ignore[dict-item]
        capacity={"m": -1, "n": 1},
        policies={
            "m": CapacityPolicy(step=0),
            "n": CapacityPolicy(min=3, max=2, values=(2, 1)),
        },
        counters={"s": {"n": 1}},
    )
    bad = claim(
        DeviceRequest(name="r", count=0, select=("device.x",)),
        DeviceRequest(name="s", admin=True, capacity={"m": 1}),
        constraints=(DeviceConstraint(),),
    )
    with pytest.raises(ArgumentError) as told:
        allocate([bad], [wrong], tries=0)
    paths = [fault.path for fault in told.value.faults]
    for path in (
        *("claims[0].requests[0].count", "claims[0].requests[1].capacity", "tries"),
        *("claims[0].requests[0].select[0]", "claims[0].constraints[0]"),
        *("devices[0].attributes['d/x']", "devices[0].capacity['m']"),
        *("devices[0].policies['m'].step", "devices[0].policies['n'].min"),
        *("devices[0].policies['n'].values", "devices[0].policies['n'].default"),
    ):
        assert path in paths
    with pytest.raises(ArgumentError, match=r"^order: expected 'listed' or 'tight' or 'spread'"):
        allocate([bad], [], order="best")  # type: ignore[arg-type]
    sets = [CounterSet(name="s", counters={"k": 1})]
    with pytest.raises(ArgumentError, match=r"\['n'\]: its counter set has no such"):
        allocate([ask()], [Device(name="g", counters={"s": {"n": 1}})], sets)
    unknown = claim(
        DeviceRequest(name="r"), constraints=(DeviceConstraint(same="x", requests="q"),)
    )
    with pytest.raises(ArgumentError, match="requests"):
        allocate([unknown], gpus(1))


# ------------------------------------------------------------------ beside all allocations

PARTS = (100, 400, 1000)


@st.composite
def offers(draw: st.DrawFn) -> tuple[list[Device], list[CounterSet]]:
    """Draw a few devices: shared or not, tainted or not, some on a counter."""
    broken = Taint(key="broken", effect=TaintEffect.NO_EXECUTE)
    of_node = [
        Device(
            name=f"g{n}",
            attributes=draw(st.sampled_from([{}, {"x": 1}, {"x": 2}, {"x": (1, 2)}])),
            capacity={"milli": draw(st.sampled_from([400, 1000]))},
            shared=draw(st.booleans()),
            counters=draw(st.sampled_from([{}, {"s": {"n": 1}}, {"s": {"n": 2}}])),
            taints=draw(st.sampled_from([(), (), (broken,)])),
        )
        for n in range(draw(st.integers(1, 4)))
    ]
    return of_node, [CounterSet(name="s", counters={"n": draw(st.integers(0, 3))})]


@st.composite
def claims(draw: st.DrawFn) -> DeviceClaim:
    """Draw a claim of up to three requests, with up to one constraint."""

    def request(name: str, *, may_be_admin: bool = True) -> DeviceRequest:
        admin = may_be_admin and draw(st.integers(0, 7)) == 0
        return DeviceRequest(
            name=name,
            count=draw(st.sampled_from([1, 1, 2, "all"])),
            capacity={} if admin else draw(st.sampled_from([{}, *({"milli": n} for n in PARTS)])),
            admin=admin,
            tolerations=draw(
                st.sampled_from([(), (Toleration(operator=TolerationOperator.EXISTS),)])
            ),
        )

    requests = []
    for number in range(draw(st.integers(1, 3))):
        one = request(f"r{number}")
        if draw(st.integers(0, 3)) == 0:
            others = (request("a", may_be_admin=False), request("b", may_be_admin=False))
            one = DeviceRequest(name=one.name, alternatives=others)
        requests.append(one)
    kind = draw(st.sampled_from([None, "same", "distinct"]))
    return claim(*requests, constraints=() if kind is None else (DeviceConstraint(**{kind: "x"}),))


def part_of(device: Device, request: DeviceRequest) -> int:
    return request.capacity.get("milli", device.capacity["milli"])


def is_possible(
    chosen: list[tuple[str, DeviceRequest, Device]],
    constraint: DeviceConstraint | None,
    limit: int,
    before: dict[str, int],
) -> bool:
    """Judge a whole allocation, as the rules of section "What may be had" of the docs say."""
    tolerated = all(not device.taints or request.tolerations for _, request, device in chosen)
    admins = [(device.name, name) for name, request, device in chosen if request.admin]
    others = [(name, r, device) for name, r, device in chosen if not r.admin]
    seen = [device.name for _, _, device in others]
    if len({name for name, _ in admins}) < len(admins) or {n for n, _ in admins} & set(seen):
        return False
    by_device: dict[str, list[tuple[str, DeviceRequest, Device]]] = {}
    for each in others:
        by_device.setdefault(each[2].name, []).append(each)
    drawn = 0
    for name, users in by_device.items():
        device = users[0][2]
        taken = sum(part_of(device, request) for _, request, _ in users)
        if device.shared:
            if taken + before.get(name, 0) > device.capacity["milli"]:
                return False
            if len({request for request, _, _ in users}) < len(users):
                return False
        elif len(users) > 1 or name in before or taken > device.capacity["milli"]:
            return False
        drawn += 0 if name in before else device.counters.get("s", {}).get("n", 0)
    if drawn and drawn > limit:
        return False
    if constraint is not None:
        values = []
        for _, _, device in chosen:
            value = device.attributes.get("x")
            values.append(
                set() if value is None else set(value if type(value) is tuple else [value])
            )
        if not all(values):
            return False
        if constraint.same and not set.intersection(*values):
            return False
        if constraint.distinct and any(a & b for a, b in combinations(values, 2)):
            return False
    return tolerated


@settings(max_examples=300)
@given(offers(), claims(), st.lists(st.sampled_from([100, 400, 1000]), max_size=2))
def test_the_first_of_all_possible_allocations_is_found(offer, asked, amounts):
    of_node, sets = offer
    before = {device.name: amount for device, amount in zip(of_node, amounts, strict=False)}
    taken = [held(name, amount) for name, amount in before.items()]
    drawn = sum(
        device.counters.get("s", {}).get("n", 0) for device in of_node if device.name in before
    )
    limit = sets[0].counters["n"] - drawn

    def ways(request: DeviceRequest) -> list[list[tuple[str, DeviceRequest, Device]]]:
        found = []
        named = [(f"{request.name}/{a.name}", a) for a in request.alternatives]
        for name, one in named or [(request.name, request)]:
            if one.count == "all":
                room = [
                    device
                    for device in of_node
                    if one.admin
                    or not device.shared
                    or part_of(device, one) + before.get(device.name, 0) <= device.capacity["milli"]
                ]
                found += [[(name, one, device) for device in room]] if room else []
            else:
                for some in combinations(of_node, one.count):
                    found.append([(name, one, device) for device in some])
        return found

    constraint = next(iter(asked.constraints), None)
    wholes = (list(chain(*parts)) for parts in product(*map(ways, asked.requests)))
    possible = (whole for whole in wholes if is_possible(whole, constraint, limit, before))
    expected = next(possible, None)
    found = allocate([asked], of_node, sets, held=taken, tries=10**6)
    got = None if found is None else [(pick.request, pick.device[2]) for pick in found]
    assert got == (None if expected is None else [(n, device.name) for n, _, device in expected])
