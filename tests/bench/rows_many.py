"""Row of tests/bench/run.sh about many candidates in one run."""


def rows():
    return [
        ("many", "ten replays of one candidate / one of ten candidates, {large}", ">=", 1.7,
         lambda b: b.replay("many", candidates=10, repeats=3, **b.large(64))),
    ]
