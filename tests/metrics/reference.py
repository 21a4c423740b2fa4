"""Reference implementation of the metrics of calls: slow, and each computed from the whole log."""

from typing import Any

from harness.conversation.events import Compaction, MessageAdded
from harness.conversation.view import fold_all
from harness.metrics.calls import iter_answered_calls
from tests.metrics.sessions import COUNTER


def acts(entries):
    pending: dict[str, Any] = {}
    return [(entry.seq, act) for entry in entries for act in iter_answered_calls(entry, pending, frozenset())]


def compactions(entries):
    return [entry for entry in entries if isinstance(entry.event, Compaction) and entry.event.status == "applied"]


def over(path, other):
    """Return whether two paths are equal or one contains the other."""
    return path in {other, "."} or other.startswith(f"{path}/")


def touched(calls, first, last):
    """Return whether a call between two calls touched what the later one is about."""
    asked = calls[last][1]
    for _, act in calls[first + 1 : last]:
        if act.effect == "retrieval":
            continue
        if asked.effect == "execution" or not asked.paths:
            return True
        if any(over(path, other) or over(other, path) for path in act.paths for other in asked.paths):
            return True
    return False


def repeats(entries):
    """Return for every call whether it is repeated and whether it is redundant."""
    calls, flags = acts(entries), []
    for place, (_, act) in enumerate(calls):
        earlier = [at for at in range(place) if calls[at][1].signature == act.signature]
        redundant = (
            bool(earlier) and calls[earlier[-1]][1].observation == act.observation and not touched(calls, earlier[-1], place)
        )
        flags.append((bool(earlier), redundant))
    return flags


def shown(entries, until, carriers):
    """Return whether one of the messages is in the view, unchanged, after event `until`."""
    view = {item.item_id: item.message for item in fold_all(entries[:until], COUNTER).items}
    return any(view.get(item) == entries[item.event - 1].event.message for item in carriers)


def reacquired(entries):
    """Return the step and the steps since the compaction for every reacquisition."""
    calls, reacquisitions = acts(entries), []
    for place, (seq, act) in enumerate(calls):
        showing = [
            at
            for at in range(place)
            if calls[at][1].target == act.target and calls[at][1].effect != "execution" and calls[at][1].succeeded
        ]
        if act.effect != "retrieval" or not act.succeeded or not showing:
            continue
        writes = [at for at in showing if calls[at][1].effect == "write"]
        live = [at for at in showing if not writes or at >= writes[-1]]
        carriers = [one.call_item if one.effect == "write" else one.result_item for one in (calls[at][1] for at in live)]
        gone = next((compaction for compaction in compactions(entries[: seq - 1]) if calls[showing[-1]][0] < compaction.seq
                     and not shown(entries, compaction.seq, carriers)), None)  # fmt: skip
        newest = calls[showing[-1]][1]
        if gone and (newest.content_digest == act.content_digest or not touched(calls, showing[-1], place)):
            reacquisitions.append((act.step, act.step - gone.event.step + 1))
    return reacquisitions


def evicted_again(entries):
    """Return for each reacquisition whether its target was evicted again next."""
    calls, total = acts(entries), 0
    fetched = {step for step, _ in reacquired(entries)}
    for place, (_, act) in enumerate(calls):
        if act.step not in fetched:
            continue
        carriers = {act.result_item}
        for entry in entries[act.result_item.event :]:
            later = [one for seq, one in calls[place + 1 :] if seq == entry.seq and one.target == act.target and one.succeeded]
            if any(one.effect == "write" for one in later):
                break
            carriers |= {one.result_item for one in later if one.effect == "retrieval"}
            if entry in compactions(entries) and not shown(entries, entry.seq, carriers):
                total += 1
                break
    return total


def evicted_tokens(entries):
    total = 0
    for entry in compactions(entries):
        before = {item.item_id: item.tokens for item in fold_all(entries[: entry.seq - 1], COUNTER).items}
        after = {item.item_id: item.tokens for item in fold_all(entries[: entry.seq], COUNTER).items}
        total += sum(max(0, tokens - after.get(item, 0)) for item, tokens in before.items())
    return total


def loops(entries):
    """Return the rule and the first step of every loop, by the position in the log at which the loop is complete."""
    moves: list[Any] = []
    doom_loops: list[Any] = []
    calls = {(seq, place): act for place, (seq, act) in enumerate(acts(entries))}
    for entry in entries:
        if not isinstance(entry.event, MessageAdded):
            continue
        message = entry.event.message
        if message.role == "user":
            moves = []
        elif message.role == "assistant" and not message.calls:
            moves.append(("reply", entry.event.step))
        moves += [("call", act) for (seq, _), act in calls.items() if seq == entry.seq]
        doom_loops += list(complete(moves)) if moves and (message.results or not message.calls) else []
    return doom_loops


def complete(moves):
    """Return the loops that the last actions complete."""
    calls: list[Any] = []
    for kind, act in reversed(moves):
        if kind != "call":
            break
        calls.insert(0, act)
    replies = 0
    while replies < len(moves) and moves[-1 - replies][0] == "reply":
        replies += 1
    alike = [(act.signature, act.observation) for act in calls]
    if len(calls) >= 4 and alike[-4:] == [alike[-1]] * 4:
        yield "same call and answer", calls[-4].step
    if len(calls) >= 3 and all(act.signature == calls[-1].signature and not act.succeeded for act in calls[-3:]):
        yield "same failing call", calls[-3].step
    if len(calls) >= 6 and alike[-6:] == alike[-2:] * 3 and alike[-1] != alike[-2]:
        yield "alternation", calls[-6].step
    if replies >= 3:
        yield "monologue", moves[-3][1]
