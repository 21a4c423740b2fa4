"""Lets small real models answer the summary prompts of scripted sessions, and stores prompts and summaries.

`python -m experiments.reader_quality.generate` continues where an earlier run stopped: prompts and summaries that the files
already contain are not made again. Each file is replaced as a whole, so it is complete at any time.
"""

import argparse
import json
import lzma
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path
from typing import Any

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.messages import user
from harness.errors import ModelError
from harness.models.local.catalogue import CATALOGUE
from harness.models.local.model import LocalModel
from harness.models.local.server import count_threads, serve_model
from harness.models.scripted.profiles import look_up_profile
from harness.models.scripted.summarizers import ScriptedSummarizer, render_prompt, summarize_extractively
from harness.models.tokenizer import count_text_tokens
from harness.protocols import Request
from harness.sandboxes.backends import SandboxChoice
from harness.session.assembly import SessionResources, assemble_session, write_workspace
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog, MemoryOutputs
from harness.task import Task
from harness.task_checks.simulation import open_task_sandbox
from harness.tasks import SUITE, make_task

FOLDER = Path(__file__).parent
PROMPTS, SUMMARIES = FOLDER / "prompts.jsonl.xz", FOLDER / "summaries.jsonl.xz"
FIRST_SEED = 5_000
"""First seed of a task; the reader's rules were written with seeds below 100 and mended with those from 1,000 to 4,115."""
SEEDS = 96
"""Number of seeds; with one summary of each session by each model, few readings depend on each other."""
POSITIONS = 4
"""Number of positions in a session from which its prompt is taken in turn: the first compaction, two between, and the last."""
ROUND_PROMPTS = 4
"""Number of prompts that one model answers before the next one: an interrupted run has summaries by all models, and the number of
threads soon suits the load of the machine."""
TASKS = sorted(task for task in SUITE if task != "flashcards-bun")
"""Tasks of the evaluation; `flashcards-bun` needs Bun and has nearly the facts of `flashcards`."""
WINDOW_TOKENS = 16_000
MATERIAL_TOKENS = 900
"""Maximum number of tokens of a summary prompt beyond the user's request."""
SUMMARY_TOKENS = 250

KEYS = ("task", "seed", "compaction")
"""Columns that identify a prompt."""

Row = dict[str, Any]


class RecordingSummarizer(ScriptedSummarizer):
    """Scripted extractive summarizer that stores each prompt and accepts prompts up to a limit in tokens."""

    def __init__(self, max_input_tokens: int) -> None:
        """Create the summarizer with the maximum length of its prompts in tokens."""
        name = "scripted/extractive"
        profile = look_up_profile("attentive")
        super().__init__(name=name, summarize=summarize_extractively, profile=profile, window_tokens=WINDOW_TOKENS)
        self.max_input_tokens = max_input_tokens
        self.prompts = list[str]()

    def reply(self, request: Request, *rest: Any) -> Any:
        """Store a prompt and answer it with an extractive summary."""
        self.prompts.append(render_prompt(request.messages))
        return super().reply(request, *rest)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a compressed file with one JSON object per line, or nothing if the file does not exist."""
    if not path.exists():
        return []
    return [json.loads(line) for line in lzma.decompress(path.read_bytes()).decode().splitlines()]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Replace a compressed file by one with the given rows."""
    text = "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows)
    part = path.with_suffix(".part")
    part.write_bytes(lzma.compress(text.encode(), preset=6))
    part.replace(path)


def record_prompts(task: Task) -> list[str]:
    """Run a session of a task in a narrow window, and return the prompts of its compactions."""
    summarizer = RecordingSummarizer(count_text_tokens(task.prompt) + MATERIAL_TOKENS)
    policy = KeepLast(
        threshold=0.35,
        keep_last=4,
        summary_max_tokens=SUMMARY_TOKENS,
        output_reserve_tokens=400,
        safety_reserve_tokens=400,
        summarizer="scripted/extractive",
    )
    spec = SessionSpec(
        request=task.prompt,
        policy=policy,
        model="scripted",
        task=task,
        seed=1,
        window_tokens=WINDOW_TOKENS,
        max_steps=3 * len(task.script.steps),
    )
    with closing(open_task_sandbox(task, SandboxChoice(backend="bubblewrap"))) as sandbox:
        sandbox.start()
        write_workspace(task, sandbox)
        resources = SessionResources(
            session_id="quality",
            log=MemoryLog(),
            clock=lambda: 0.0,
            sandbox=sandbox,
            outputs=MemoryOutputs(),
            summarizer=summarizer,
        )
        session = assemble_session(spec, resources)
        session.agent.logs_steps_at_once = True
        session.agent.run(session.make_start_event("{}"), spec.system_prompt)
    return list(dict.fromkeys(summarizer.prompts))


def number_session(task: str, seed: int) -> int:
    """Return the number of a session among all sessions; tasks take turns, then seeds."""
    return (seed - FIRST_SEED) * len(TASKS) + TASKS.index(task)


def choose(prompts: list[str], turn: int) -> int:
    """Return the number of the compaction, from 1, whose prompt is answered; sessions take the positions in turn."""
    return 1 + round(turn % POSITIONS * (len(prompts) - 1) / (POSITIONS - 1))


def generate_prompts(first_seed: int, seeds: int, path: Path) -> list[Row]:
    """Return one prompt of each session with the given seeds, and record those that the file lacks."""
    rows = read_rows(path)
    known = {(row["task"], row["seed"]) for row in rows}
    for seed in range(first_seed, first_seed + seeds):
        for name in TASKS:
            if (name, seed) in known:
                continue
            task = make_task(name, seed)
            prompts = record_prompts(task)
            number = choose(prompts, number_session(name, seed))
            rows.append(
                {"task": name, "seed": seed, "compaction": number, "prompt": prompts[number - 1], "values": dict(task.values)}
            )
            write_rows(path, rows)
            print(f"{name} {seed}: {len(prompts)} prompts", flush=True)
    return [row for row in rows if first_seed <= row["seed"] < first_seed + seeds]


def choose_threads() -> int:
    """Return the number of threads for a server: one for each core of an idle machine, otherwise one."""
    cores = count_threads()
    return cores if os.getloadavg()[0] < cores + 1 else 1


def list_waiting(model_name: str, prompts: list[Row], path: Path) -> list[Row]:
    """Return the prompts that a model has not answered yet."""
    done = {(row["model"], *(row[key] for key in KEYS)) for row in read_rows(path)}
    return [row for row in prompts if (model_name, *(row[key] for key in KEYS)) not in done]


def make_row(model_name: str, prompt: Row, prompt_tokens: int, summary_tokens: int, summary: str) -> Row:
    """Return the row of a summary by a model."""
    lengths = {"prompt_tokens": prompt_tokens, "summary_tokens": summary_tokens}
    return {"model": model_name, **{key: prompt[key] for key in KEYS}, **lengths, "summary": summary}


def generate_in_batches(model_name: str, prompts: list[Row], path: Path, size: int) -> None:
    """Let one model answer the given prompts with PyTorch, many at once and long prompts first, except those answered already."""
    waiting = sorted(list_waiting(model_name, prompts, path), key=lambda row: len(row["prompt"]), reverse=True)
    if not waiting:
        return
    from experiments.reader_quality.batches import BatchModel  # noqa: PLC0415  (needs packages that the project does not)

    model = BatchModel(CATALOGUE[model_name], choose_threads())
    for start in range(0, len(waiting), size):
        asked = waiting[start : start + size]
        summaries = [
            make_row(model_name, row, answer.prompt_tokens, answer.answer_tokens, answer.text)
            for row, answer in zip(asked, model.answer([row["prompt"] for row in asked], SUMMARY_TOKENS), strict=True)
        ]
        write_rows(path, [*read_rows(path), *summaries])
        print(time.strftime("%H:%M:%S"), model_name, f"{start + len(asked)} of {len(waiting)}", flush=True)


def generate_summaries(model_name: str, prompts: list[Row], path: Path, slots: int) -> None:
    """Let one model answer the given prompts, several at a time, except those that it has answered already."""
    waiting = list_waiting(model_name, prompts, path)
    if not waiting:
        return
    threads = choose_threads()
    with (
        serve_model(CATALOGUE[model_name], slots=slots, threads=threads) as endpoint,
        ThreadPoolExecutor(slots) as pool,
    ):
        model = LocalModel(name=model_name, endpoint=endpoint)
        requests = {
            pool.submit(model.reply, Request(messages=(user(row["prompt"]),), max_output_tokens=SUMMARY_TOKENS)): row
            for row in waiting
        }
        for future in as_completed(requests):
            row = requests[future]
            try:
                reply = future.result()
            except ModelError as error:  # asked again by the next run
                print(model_name, *(row[key] for key in KEYS), error, flush=True)
                continue
            summary = make_row(model_name, row, reply.usage.prompt_tokens, reply.usage.output_tokens, reply.message.text)
            write_rows(path, [*read_rows(path), summary])
            print(
                time.strftime("%H:%M:%S"), model_name, *(row[key] for key in KEYS), f"{reply.seconds:.0f} s", threads, flush=True
            )


def main() -> None:
    """Record the prompts, then let the models answer them in rounds, in each round the smallest model first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--models", nargs="*", default=list(CATALOGUE), help="names of local models; none records only prompts")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the two files")
    parser.add_argument("--slots", type=int, default=4, help="number of prompts that a model's server answers at the same time")
    parser.add_argument("--batch", type=int, default=0, help="answer so many prompts at once with PyTorch; 0 uses the server")
    chosen = parser.parse_args()
    prompts = generate_prompts(chosen.first_seed, chosen.seeds, chosen.folder / PROMPTS.name)
    if chosen.batch:
        for name in chosen.models:
            generate_in_batches(name, prompts, chosen.folder / SUMMARIES.name, chosen.batch)
        return
    for start in range(0, len(prompts), ROUND_PROMPTS):
        for name in chosen.models:
            generate_summaries(name, prompts[start : start + ROUND_PROMPTS], chosen.folder / SUMMARIES.name, chosen.slots)


if __name__ == "__main__":
    main()
