"""Readable sample session about late flood alerts that an agent fixes; it lets a person judge what a compaction lost.

The texts are sentences with facts, unlike those of the artificial session of `harness.inspection.sample_run`, which is as long as
needed. The session contains an error of the agent, a decision that is revised later, constraints of the user, and numbers that
are read early and needed in the last steps. It is the same everywhere and contains no random word.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from harness.conversation.messages import ToolCall, assistant
from harness.inspection.sample_run import SampleStep

STORY_PROMPT = """\
The service tidewatch/ warns twelve harbours of high water. Since Monday its alerts arrive late. Find out why, and fix it.
Keep the function names in tidewatch/api.py, because the harbour offices call them.
Do not change config/production.toml: the operations team owns that file. All times are in UTC.
Write a test for each harbour with its own threshold. Do not add a dependency.
When you are done, write docs/incident.md: the cause, how many alerts were late, the median delay, and what we changed."""
FINAL_ANSWER = """\
The alerts are on time again. The cause was a retry loop that blocked the poller whenever the gateway answered 503. Refused alerts
now go into a queue on disk. Each of the twelve harbours has a test with its own threshold. The report in docs/incident.md says
that 41 of 212 alerts were late, with a median delay of 17 minutes."""
REPORT = "docs/incident.md"
LOG_LINES, LOG_INTERVAL_MINUTES = 96, 15
"""Number of lines in the log of a day, and the time in minutes between two lines."""
PAST_HIGH_WATERS, HIGH_WATERS_A_YEAR = 144, 18
"""Number of past high waters listed for each harbour, in all and in a year."""
ALERTS = 212


class Harbour(NamedTuple):
    """Harbour of the sample session, with values that the agent reads early and needs in a test near the end."""

    name: str
    gauge: int
    """Number of the gauge that measures the water level."""
    threshold_cm: int
    """Water level in centimetres from which on the harbour gets an alert."""
    interval_minutes: int
    """Time in minutes between two measurements."""
    contact: str


HARBOURS = (
    Harbour("emden", 7, 640, 5, "harbour master"),
    Harbour("norddeich", 9, 585, 10, "ferry office"),
    Harbour("bensersiel", 12, 590, 10, "lifeboat station"),
    Harbour("wilhelmshaven", 15, 710, 5, "lock keeper"),
    Harbour("bremerhaven", 21, 725, 5, "port control"),
    Harbour("cuxhaven", 24, 655, 5, "port control"),
    Harbour("brunsbuettel", 26, 630, 10, "lock keeper"),
    Harbour("buesum", 31, 615, 15, "fishery office"),
    Harbour("husum", 33, 645, 10, "harbour master"),
    Harbour("dagebuell", 38, 605, 15, "ferry office"),
    Harbour("list", 41, 540, 15, "lifeboat station"),
    Harbour("helgoland", 44, 520, 10, "island office"),
)


LOGGED_DAYS = (("2026-11-09", HARBOURS[0]), ("2026-11-10", HARBOURS[5]), ("2026-11-11", HARBOURS[9]))
"""Days whose logs the agent reads, each with the harbour whose alerts were late on that day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryStep:
    """Step of the readable session: what the agent says, the tool that it calls, and the output of the tool."""

    says: str
    tool: str
    arguments: dict[str, str]
    output: str
    needed_for: str = ""
    """Path of the file whose last version the agent can only write with this output; empty if no later step needs it."""


@lru_cache(maxsize=1)
def list_story_steps() -> tuple[StoryStep, ...]:
    """Return all steps of the readable sample session, in order."""
    steps = [*_explore(), *_read_harbours(), *_measure_delays(), *_decide(), *_fail_and_repair(), *_revise(), *_test_harbours()]
    return (*steps, *_document())


def make_story_step(number: int) -> SampleStep:
    """Return step `number` (from 1) of the readable sample session.

    After the last step, this is a step with the agent's final answer.
    """
    steps = list_story_steps()
    if number > len(steps):
        return SampleStep(assistant(FINAL_ANSWER), "")
    step = steps[number - 1]
    call = ToolCall(call_id=f"step-{number}", name=step.tool, arguments_json=json.dumps(step.arguments))
    return SampleStep(assistant(step.says, call), step.output)


def find_last_use(number: int) -> int | None:
    """Return the last step that needs the output of step `number`; None if no later step needs it."""
    steps = list_story_steps()
    path = steps[number - 1].needed_for if number <= len(steps) else ""
    writes = [place for place, step in enumerate(steps, start=1) if path and step.arguments.get("path") == path]
    return writes[-1] if writes and writes[-1] > number else None


def _run(says: str, command: str, output: str, needed_for: str = "") -> StoryStep:
    return StoryStep(
        says=says,
        tool="execute_command",
        arguments={"command": command},
        output=f"exit code 0\n{output}",
        needed_for=needed_for,
    )


def _read(says: str, path: str, output: str, needed_for: str = "") -> StoryStep:
    return StoryStep(says=says, tool="read_file", arguments={"path": path}, output=output, needed_for=needed_for)


def _write(says: str, path: str, content: str, needed_for: str = "") -> StoryStep:
    output = f"wrote {len(content)} bytes to {path}"
    arguments = {"path": path, "content": content}
    return StoryStep(says=says, tool="write_file", arguments=arguments, output=output, needed_for=needed_for)


README_TEXT = """\
# tidewatch

The poller reads twelve gauges. If the water is higher than the threshold of a harbour, it sends an alert to the gateway, which
calls the contact of the harbour by telephone. An alert is late if the call begins more than two minutes after the measurement.
The gateway accepts an alert with the status 202, and answers 503 while all of its telephone lines are busy. Tests run against a
copy of the gateway on port 7431.
"""
HARBOUR_TEXT = '''\
[harbour]
name = "{name}"
gauge = {gauge}
threshold_cm = {threshold_cm}
interval_minutes = {interval_minutes}
contact = "{contact}"

[notes]
text = """
Gauge {gauge} measures every {interval_minutes} minutes. The {contact} is called first. If nobody answers, the call goes to
the duty officer of the district. The threshold of {threshold_cm} cm was agreed with the harbour after the storm of January and
differs from that of every other harbour."""

[past_high_waters]
{past_high_waters}
'''
REPORT_TEXT = """\
# Late alerts from 9 to 11 November

Cause: while the gateway answered 503, the poller waited in a retry loop for up to 20 minutes and polled no other harbour.

Extent: 41 of 212 alerts were late, with a median delay of 17 minutes. Affected were Emden (14), Cuxhaven (15) and Dagebüll (12).

Change: refused alerts go into a queue on disk, which is sent every 60 seconds. A list in memory was tried first and discarded,
because a restart lost the alert for Husum.
"""
API_CODE = '''\
"""Functions that the harbour offices call. Do not rename them."""


def latest_level(harbour):
    """Return the newest water level of a harbour in centimetres."""
    return read_level(find_gauge(harbour))


def open_alerts(harbour):
    """Return the alerts of a harbour that nobody has confirmed."""
    return [alert for alert in stored_alerts(harbour) if not alert.confirmed]


def confirm(alert, person):
    """Record that a person has read an alert."""
    store(alert, confirmed_by=person, confirmed_at=utc_now())
'''
POLLER_CODE = '''\
"""Poller: reads every gauge in turn and sends an alert when the water is higher than the threshold of the harbour."""

RETRIES = 20
PAUSE_SECONDS = 60


def poll_all(stations):
    for station in stations:
        level = read_level(station.gauge)
        if level >= station.threshold_cm:
            send_until_accepted(Alert(station, level, utc_now()))


def send_until_accepted(alert):
    """Send an alert; while the gateway answers 503, wait a minute and try again."""
    for attempt in range(RETRIES):
        if gateway.send(alert).status == 202:
            return
        sleep(PAUSE_SECONDS)
    log.error("gave up alert for %s", alert.station.name)
'''
QUEUE_CODE = '''\
"""Queue of alerts that the gateway has refused, kept on disk so that a restart loses none of them."""

RETRY_SECONDS = 60


def put(alert):
    """Append an alert to the queue file."""
    append_line(QUEUE_FILE, encode(alert))


def send_waiting():
    """Send the waiting alerts, the oldest first; stop at the first one that the gateway refuses."""
    for alert in read_lines(QUEUE_FILE):
        if gateway.send(alert).status != 202:
            return
        remove_line(QUEUE_FILE, alert)
'''


def _explore() -> list[StoryStep]:
    return [
        _run(
            "I look at the project before I change anything.",
            "ls -R . | head -40",
            "README.md\nconfig/production.toml\nconfig/harbours/ (12 files)\ndocs/\nlogs/ (3 files)\ntests/\n"
            "tidewatch/api.py\ntidewatch/alerts.py\ntidewatch/gateway.py\ntidewatch/poller.py\ntidewatch/times.py",
        ),
        _read(
            "The README should say how the parts work together.",
            "README.md",
            README_TEXT,
            needed_for="tests/test_delay.py",
        ),
        _read(
            "I need the settings of the service, but I must not change this file: the operations team owns it.",
            "config/production.toml",
            '[gateway]\nurl = "https://gateway.internal/alerts"\nlines = 4\nanswer_within_seconds = 15\n\n[poller]\n'
            'round_seconds = 300\nstations = "config/harbours"\n\n[limits]\nmax_calls_per_hour = 60',
            needed_for="tidewatch/queue.py",
        ),
        _read("These names must stay as they are.", "tidewatch/api.py", API_CODE, needed_for=REPORT),
        _read(
            "Here alerts are sent, so a delay may begin here.",
            "tidewatch/poller.py",
            POLLER_CODE,
            needed_for="tidewatch/poller.py",
        ),
        _read(
            "The clock matters for delays. The user wants all times in UTC.",
            "tidewatch/times.py",
            "from datetime import UTC, datetime\n\n\ndef utc_now():\n    return datetime.now(UTC)\n\n\ndef parse(text):\n"
            '    """Return the time of a log line; the gateway writes no offset."""\n    return datetime.fromisoformat(text)',
            needed_for="tidewatch/times.py",
        ),
    ]


def _read_harbours() -> list[StoryStep]:
    return [
        _read(
            f"{harbour.name.capitalize()} has its own threshold, which I will need for its test.",
            f"config/harbours/{harbour.name}.toml",
            HARBOUR_TEXT.format(**harbour._asdict(), past_high_waters=_list_past_high_waters(harbour)),
            needed_for=f"tests/harbours/test_{harbour.name}.py",
        )
        for harbour in HARBOURS
    ]


def _list_past_high_waters(harbour: Harbour) -> str:
    lines = []
    for number in range(PAST_HIGH_WATERS):
        level_cm = harbour.threshold_cm - 40 + (11 * number + harbour.gauge) % 60
        alert = f"alert, the {harbour.contact} was called" if level_cm >= harbour.threshold_cm else "no alert"
        year, place = divmod(number, HIGH_WATERS_A_YEAR)
        month, part = divmod(12 * place, HIGH_WATERS_A_YEAR)
        date = f"{2018 + year}-{1 + month:02}-{1 + part + harbour.gauge % 10:02}"
        lines.append(f'{date} = "{level_cm} cm at gauge {harbour.gauge}, {alert}"')
    return "\n".join(lines)


def _write_log(day: str, late_harbour: Harbour) -> str:
    """Return a log in which the alerts of one harbour wait for the gateway while the others are not polled."""
    lines = []
    for number in range(LOG_LINES):
        harbour = HARBOURS[number % len(HARBOURS)]
        clock = f"{day}T{_format_clock(number)}:00"
        level_cm = harbour.threshold_cm - 90 + 7 * (number % 17)
        if harbour is late_harbour:
            lines.append(
                f"{clock} {harbour.name} gauge {harbour.gauge} level {harbour.threshold_cm + 12} cm: "
                "alert, gateway answered 503, waiting"
            )
        else:
            lines.append(
                f"{clock} {harbour.name} gauge {harbour.gauge} level {level_cm} cm: "
                f"below the threshold of {harbour.threshold_cm} cm"
            )
    return "\n".join(lines)


def _format_clock(number: int) -> str:
    minutes = LOG_INTERVAL_MINUTES * number
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _write_gateway_log(day: str, late_harbour: Harbour) -> str:
    """Return the log of the gateway that sends alerts; lines with `busy` explain each answer 503."""
    lines = []
    for number in range(0, LOG_LINES, 2):
        harbour = HARBOURS[number // 2 % len(HARBOURS)]
        answer = (
            "503, all 4 lines busy"
            if harbour is late_harbour
            else f"202, {harbour.contact} of {harbour.name} called on line {number % 4 + 1}"
        )
        lines.append(f"{day}T{_format_clock(number)}:12 request {5_000 + number}: {answer}")
    return "\n".join(lines)


def _write_measurements(harbour: Harbour) -> str:
    levels = (
        f"2026-11-09T{_format_clock(number)}:00+00:00,{harbour.threshold_cm - 90 + 7 * (number % 17)}"
        for number in range(LOG_LINES)
    )
    return "\n".join(("time,level_cm", *levels))


def _write_simulation(last: str) -> str:
    """Return the output of a simulation in which no alert is late, with `last` as its last words."""
    lines = [
        f"alert {number + 1} for {HARBOURS[number % len(HARBOURS)].name}: sent after {2 + (number * 37) % 73} s"
        for number in range(ALERTS)
    ]
    return "\n".join((*lines, f"{ALERTS} alerts: 0 late, longest delay 74 s, {last}"))


def _measure_delays() -> list[StoryStep]:
    reads = [
        _run(
            f"I read the log of {day}. I look for the time between a measurement and its call.",
            f"cat logs/{day}.log",
            _write_log(day, harbour),
        )
        for day, harbour in LOGGED_DAYS
    ]
    return [
        *reads,
        _run(
            "Now I count. This number belongs in docs/incident.md, so I must remember it until the end.",
            "python tools/delays.py logs/*.log",
            "alerts 212\nlate alerts (over 2 minutes) 41\nmedian delay of late alerts 17 minutes\nlongest delay 20 minutes\n"
            "harbours with late alerts: emden 14, cuxhaven 15, dagebuell 12",
            needed_for=REPORT,
        ),
    ]


def _decide() -> list[StoryStep]:
    return [
        _run(
            "Is the gateway slow? If each answer took long, all harbours would be late, and only three are.",
            "python tools/ping_gateway.py --count 20",
            "20 answers, median 0.2 s, slowest 0.4 s; 17 × 202, 3 × 503",
        ),
        *(
            _run(
                f"I read what the gateway itself logged on {day}.",
                f"cat logs/gateway-{day}.log",
                _write_gateway_log(day, harbour),
            )
            for day, harbour in LOGGED_DAYS
        ),
        _run(
            "The gateway is fast, so it is not the cause. It answers 503 now and then, and the poller then waits up to twenty "
            "minutes in send_until_accepted. Meanwhile no other harbour is polled. I check this with the stack of the process.",
            "python tools/stack.py tidewatch",
            "poll_all -> send_until_accepted(Alert(emden, 652 cm)) -> sleep(60), attempt 17 of 20",
            needed_for=REPORT,
        ),
        _write(
            "Decision: I keep the failed alerts in a list in memory and send them after each round. That is the smallest change.",
            "tidewatch/poller.py",
            POLLER_CODE.replace(
                "send_until_accepted(Alert(station, level, utc_now()))", "send_or_keep(Alert(station, level, utc_now()))"
            )
            .replace("def send_until_accepted", "WAITING = []\n\n\ndef send_or_keep")
            .replace(
                "while the gateway answers 503, wait a minute and try again", "if the gateway answers 503, keep it in WAITING"
            ),
        ),
        _run("I run the tests of the poller.", "pytest -q tests/test_poller.py", "4 passed in 0.21s"),
        _run(
            "Does the list in memory help? I simulate the three days with it.",
            "python tools/simulate.py --waiting memory",
            _write_simulation("the list in memory held at most 9 alerts"),
        ),
        _write(
            "I write a test that measures the delay of an alert while the gateway is busy.",
            "tests/test_delay.py",
            "def test_an_alert_waits_less_than_two_minutes(busy_gateway):\n    sent = run_round(busy_gateway, port=7431)\n"
            "    assert max(delay(alert) for alert in sent).total_seconds() < 120\n",
        ),
    ]


def _fail_and_repair() -> list[StoryStep]:
    trace = (
        'Traceback (most recent call last):\n  File "tests/test_delay.py", line 3, in test_an_alert_waits_less_than_two_minutes\n'
        '    assert max(delay(alert) for alert in sent).total_seconds() < 120\n  File "tidewatch/alerts.py", line 31, in delay\n'
        "    return alert.called_at - alert.measured_at\nTypeError: can't subtract offset-naive and offset-aware datetimes"
    )
    failed = StoryStep(
        says="I run it.",
        tool="execute_command",
        arguments={"command": "pytest -q tests/test_delay.py"},
        output=f"exit code 1\n{trace}\n1 failed in 0.30s",
        needed_for="tidewatch/times.py",
    )
    return [
        failed,
        *(
            _run(
                f"My first guess: gauge {harbour.gauge} of {harbour.name.capitalize()} writes local time. "
                "I look at its measurements.",
                f"cat logs/raw/gauge-{harbour.gauge:02}.csv",
                _write_measurements(harbour),
            )
            for _, harbour in LOGGED_DAYS
        ),
        _run(
            "The guess was wrong: measurements have an offset. The times of the gateway have none, and parse() keeps them naive.",
            "grep -n called_at -r tidewatch | head",
            "tidewatch/gateway.py:22: called_at = parse(answer['called_at'])",
            needed_for="tidewatch/times.py",
        ),
        _read(
            "I look at the place where the answer of the gateway is read.",
            "tidewatch/gateway.py",
            '"""Client of the telephone gateway."""\n\n\ndef send(alert):\n    answer = post(URL, encode(alert))\n'
            "    called_at = parse(answer['called_at'])\n    return Answer(answer.status, called_at)",
            needed_for="tidewatch/times.py",
        ),
        _write(
            "parse() gets the offset of UTC if the text has none. The user said that all times are in UTC.",
            "tidewatch/times.py",
            "from datetime import UTC, datetime\n\n\ndef utc_now():\n    return datetime.now(UTC)\n\n\ndef parse(text):\n"
            '    """Return a time; a text without an offset is in UTC, as the gateway writes it."""\n'
            "    time = datetime.fromisoformat(text)\n    return time if time.tzinfo else time.replace(tzinfo=UTC)\n",
            needed_for=REPORT,
        ),
        _run("Again.", "pytest -q tests/test_delay.py tests/test_poller.py", "5 passed in 0.44s"),
    ]


def _revise() -> list[StoryStep]:
    return [
        _run(
            "Before I go on, I restart the service while an alert waits. An alert that is only in memory could be lost.",
            "python tools/restart_drill.py --port 7431",
            "alert for husum waiting\nservice restarted\nwaiting alerts after the restart: 0\nalert for husum was never sent",
            needed_for=REPORT,
        ),
        _write(
            "I revise my decision: the list in memory loses alerts at a restart, which is worse than a delay. The alerts go "
            "into a queue on disk instead, and WAITING is removed.",
            "tidewatch/queue.py",
            QUEUE_CODE,
            needed_for=REPORT,
        ),
        _write(
            "The poller now puts refused alerts into the queue and never sleeps.",
            "tidewatch/poller.py",
            POLLER_CODE.partition("RETRIES")[0]
            + "\n\ndef poll_all(stations):\n    queue.send_waiting()\n    for station in stations:\n"
            "        level = read_level(station.gauge)\n        if level >= station.threshold_cm:\n"
            "            alert = Alert(station, level, utc_now())\n            if gateway.send(alert).status != 202:\n"
            "                queue.put(alert)\n",
            needed_for=REPORT,
        ),
        _run(
            "A round of the poller takes 300 seconds, longer than the two minutes allowed. May the queue be sent more often? The "
            "limit in production.toml is 60 calls an hour.",
            "python tools/simulate.py --retry-seconds 60 --lines 4",
            _write_simulation("at most 38 calls in an hour"),
            needed_for=REPORT,
        ),
        _run(
            "Sending the queue every 60 seconds keeps both limits. The drill again, now with the queue on disk:",
            "python tools/restart_drill.py --port 7431",
            "alert for husum waiting\nservice restarted\nwaiting alerts after the restart: 1\nalert for husum sent after 58 s",
        ),
        _run(
            "I check that I did not touch what belongs to others.",
            "git status --short",
            " M tidewatch/poller.py\n M tidewatch/times.py\n?? tests/test_delay.py\n?? tidewatch/queue.py",
        ),
    ]


def _test_harbours() -> list[StoryStep]:
    return [
        _write(
            f"The test for {harbour.name.capitalize()}: the threshold is {harbour.threshold_cm} cm at gauge {harbour.gauge}.",
            f"tests/harbours/test_{harbour.name}.py",
            "from tidewatch.poller import poll_all\n\n\n"
            f"def test_{harbour.name}_gets_an_alert_at_{harbour.threshold_cm}_cm(gateway):\n"
            f"    poll_all([station({harbour.name!r}, gauge={harbour.gauge}, level_cm={harbour.threshold_cm})])\n"
            f"    assert gateway.calls == [({harbour.name!r}, {harbour.contact!r})]\n\n\n"
            f"def test_{harbour.name}_gets_no_alert_below_it(gateway):\n"
            f"    poll_all([station({harbour.name!r}, gauge={harbour.gauge}, level_cm={harbour.threshold_cm - 1})])\n"
            "    assert gateway.calls == []\n",
        )
        for harbour in HARBOURS
    ]


def _document() -> list[StoryStep]:
    return [
        _run("All tests together.", "pytest -q", "33 passed in 1.92s"),
        _write(
            "The incident report needs the numbers from the logs: 41 of 212 alerts, and the median of 17 minutes.",
            REPORT,
            REPORT_TEXT,
        ),
        _run(
            "Last check: the names in api.py and the file of the operations team are unchanged.",
            "git diff --stat",
            " tidewatch/poller.py | 24 ++++-----\n tidewatch/times.py | 4 +-\n 2 files changed, 12 insertions(+), 16 deletions",
        ),
    ]
