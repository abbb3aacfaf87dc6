"""From one cycle to the next: what becomes of a snapshot when decisions are carried out."""
