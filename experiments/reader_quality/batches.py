"""Lets a local model answer many prompts at once with PyTorch, which needs a fraction of the processor time of its server.

The weights are those of the model's GGUF file, unpacked to 16 bits (bfloat16), for which recent processors have matrix
instructions. Decoding is greedy. The wording of an answer can differ from that of the server, which computes with packed weights.
The packages `torch`, `transformers`, `accelerate` and `gguf` are not among the dependencies of this project.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from harness.models.local.catalogue import LocalWeights
from harness.models.local.weights import verify

CHUNK_TOKENS = 256
"""Number of tokens that a layer computes at once outside of attention: the values of more do not fit into a core's cache, which
doubles the time."""


class Answer(NamedTuple):
    """Answer of a model to a prompt, with the lengths of both in tokens."""

    prompt_tokens: int
    answer_tokens: int
    text: str


class BatchModel:
    """Local model that answers many prompts at once. Only models with the architectures Llama and Qwen2 are supported."""

    def __init__(self, weights: LocalWeights, threads: int) -> None:
        """Load the weights of a model, which must have been downloaded.

        Args:
            weights: Catalogue entry of the model.
            threads: Number of threads that compute.
        """
        torch.set_num_threads(threads)
        path = verify(weights)
        self._tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        self._model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.bfloat16).eval()
        config = self._model.config
        self._heads, self._groups = config.num_attention_heads, config.num_key_value_heads
        ends = {self._tokenizer.eos_token_id, self._tokenizer.convert_tokens_to_ids("<|im_end|>")}
        self._ends = torch.tensor(sorted(end for end in ends if end is not None))

    def answer(self, prompts: Sequence[str], max_tokens: int) -> list[Answer]:
        """Return the answers to prompts, each of at most a number of tokens; prompts of equal length waste no time."""
        asked = [self._encode(prompt) for prompt in prompts]
        with torch.inference_mode():
            answered = self._decode(asked, max_tokens)
        return [
            Answer(len(ids), len(new), self._tokenizer.decode(new, skip_special_tokens=True))
            for ids, new in zip(asked, answered, strict=True)
        ]

    def _encode(self, prompt: str) -> list[int]:
        message = {"role": "user", "content": prompt}
        text = self._tokenizer.apply_chat_template([message], tokenize=False, add_generation_prompt=True)
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _decode(self, asked: Sequence[list[int]], max_tokens: int) -> list[list[int]]:
        """Read each prompt alone, then generate the answers to all prompts together, one token of each at a time.

        The prompts end at the same place of the cache, so the next tokens of all answers have the same place, too.
        """
        longest, count = max(map(len, asked)), len(asked)
        cache = self._make_cache(count, longest + max_tokens)
        is_filled = torch.zeros(count, 1, 1, longest + max_tokens, dtype=torch.bool)
        newest = []
        for row, ids in enumerate(asked):
            start = longest - len(ids)
            places = torch.arange(len(ids))[None]
            hidden = self._run(torch.tensor([ids]), places, cache, slice(row, row + 1), slice(start, longest), None)
            is_filled[row, ..., start:longest] = True
            newest.append(self._choose(hidden[:, -1:]))
        tokens, lengths = torch.cat(newest), torch.tensor([[len(ids)] for ids in asked])
        answers: list[list[int]] = [[] for _ in asked]
        is_done = torch.zeros(count, dtype=torch.bool)
        for step in range(max_tokens):
            is_done |= torch.isin(tokens[:, 0], self._ends)
            for answer, token, done in zip(answers, tokens[:, 0].tolist(), is_done.tolist(), strict=True):
                if not done:
                    answer.append(token)
            if bool(is_done.all()) or step == max_tokens - 1:
                break
            place = longest + step
            is_filled[..., place] = True
            mask = is_filled[..., : place + 1]
            hidden = self._run(tokens, lengths + step, cache, slice(0, count), slice(place, place + 1), mask)
            tokens = self._choose(hidden)
        return answers

    def _make_cache(self, count: int, length: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        config = self._model.config
        size = getattr(config, "head_dim", None) or config.hidden_size // self._heads
        shape = (count, self._groups, length, size)
        return [
            (torch.zeros(shape, dtype=torch.bfloat16), torch.zeros(shape, dtype=torch.bfloat16))
            for _ in range(config.num_hidden_layers)
        ]

    def _run(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        cache: Sequence[tuple[torch.Tensor, torch.Tensor]],
        rows: slice,
        places: slice,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """Return the last hidden states of new tokens, and store their keys and values at the given places of the cache.

        Args:
            tokens: New tokens, one row per prompt.
            positions: Positions of the new tokens in their conversations.
            cache: Keys and values of each layer.
            rows: Rows of the cache that belong to the prompts.
            places: Places of the new tokens in the cache.
            mask: Places of the cache that each prompt may attend to; None for a whole prompt, which attends to itself only.
        """
        core = self._model.model
        hidden = core.embed_tokens(tokens)
        cos, sin = core.rotary_emb(hidden, positions)
        count, length, _ = hidden.shape
        for layer, (keys, values) in zip(core.layers, cache, strict=True):
            attention, normed = layer.self_attn, layer.input_layernorm(hidden)
            query, key, value = (
                one(normed).view(count, length, heads, -1).transpose(1, 2)
                for one, heads in (
                    (attention.q_proj, self._heads),
                    (attention.k_proj, self._groups),
                    (attention.v_proj, self._groups),
                )
            )
            query, key = apply_rotary_pos_emb(query, key, cos, sin)
            keys[rows, :, places], values[rows, :, places] = key, value
            mixed = self._attend(query, key, value) if mask is None else self._look_back(query, keys, values, mask)
            hidden = hidden + attention.o_proj(mixed.transpose(1, 2).reshape(count, length, -1))
            chunks = hidden.split(CHUNK_TOKENS, dim=1)
            hidden = torch.cat([chunk + layer.mlp(layer.post_attention_layernorm(chunk)) for chunk in chunks], dim=1)
        return core.norm(hidden)

    def _attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        repeats = self._heads // self._groups
        key, value = (one.repeat_interleave(repeats, dim=1) for one in (key, value))
        return scaled_dot_product_attention(query, key, value, is_causal=True)

    def _look_back(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        # The heads of a group share their keys, so they can be handled like tokens, and the keys are not copied.
        count, _, _, size = query.shape
        grouped = query.reshape(count, self._groups, -1, size)
        length = mask.shape[-1]
        mixed = scaled_dot_product_attention(grouped, keys[:, :, :length], values[:, :, :length], attn_mask=mask)
        return mixed.reshape(count, self._heads, 1, size)

    def _choose(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the most likely next token of each prompt."""
        logits: Any = self._model.lm_head(hidden)
        return torch.as_tensor(logits.argmax(dim=-1))
