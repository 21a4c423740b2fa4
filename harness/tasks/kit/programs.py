"""Steps of scripts that build a program: modules, some with a first cut that fails, and their tests."""

from dataclasses import dataclass

from harness.task import CallTemplate
from harness.tasks.kit.calls import run, write
from harness.tasks.kit.steps import StepSpec, do, make_repair
from harness.tasks.kit.texts import load_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Paths of a program; `{}` stands for the name of a module."""

    package: str
    """Package of the task, whose `files` hold the texts of the program."""
    module_path: str
    module_text: str
    """Name of a module's text in `files`; the text of its first cut has the name `MODULE_first`."""
    test_path: str = "tests/test_{}.py"
    """Path of a module's tests, also the name of their text in `files`."""
    test_command: str = "python3 tools/run_tests.py tests.test_{}"
    test_name: str = "test_{}"
    """Name that text holds to the letter which tells that the tests of a module pass."""
    passed_pattern: str = r"(?i)\btests?[./_]test_{}\b.{{0,40}}(?:, 0 failed|\b(?:pass|passes|passed|green)\b)"
    """Regular expression for such text."""

    def write_text(self, path: str, name: str = "") -> CallTemplate:
        """Write the text of that name to a path; the name is the path if it is empty."""
        return write(path, load_text(self.package, name or path))

    def write_module(self, name: str, text: str, *, first_cut: bool = False) -> StepSpec:
        """Write a module, or its first cut, which holds a mistake."""
        return do(f"write_{name}", text, self._write_module(name, f"{name}_first" if first_cut else name))

    def _write_module(self, name: str, text_name: str) -> CallTemplate:
        return self.write_text(self.module_path.format(name), self.module_text.format(text_name))

    def write_test(self, name: str, text: str) -> StepSpec:
        """Write the tests of a module."""
        return do(f"write_test_{name}", text, self.write_text(self.test_path.format(name)))

    def run_test(self, name: str, text: str = "", *, error: str = "", repair_text: str = "") -> StepSpec:
        """Run the tests of a module.

        Args:
            name: name of the module.
            text: text of the step.
            error: regular expression for the failure of a first cut; empty if the module has none.
            repair_text: text of the repair, which writes the whole module.
        """
        return do(
            f"test_{name}",
            text or f"Run the tests of {name}.",
            run(self.test_command.format(name)),
            summary_pattern=self.passed_pattern.format(name),
            required_text=self.test_name.format(name),
            repairs=(make_repair(error, repair_text, self._write_module(name, name)),) if error else (),
        )

    def test_module(self, name: str, text: str, *, error: str = "", repair_text: str = "") -> tuple[StepSpec, StepSpec]:
        """Write the tests of a module and run them; see `run_test`."""
        return self.write_test(name, text), self.run_test(name, error=error, repair_text=repair_text)
