"""Writes a language model of a few megabytes for the real server: `python -m … SEED OUT < TEXT`.

Its vocabulary is the bytes and the marks of ChatML. The next byte follows the frequencies of the
given text, disturbed by random weights over what was said before. So it writes letters without any
meaning, more wildly than a packaged model would.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import gguf
import numpy as np

SPACE, START, END = 259, 260, 261  # after the tokenizer's three marks and the bytes
TOKENS = 262
WIDTH, HEADS, INNER = 288, 4, 64  # of the one layer
CONTEXT = 32_768
OFTEN = 0.04  # the probability that a text or a string ends after any byte
DISTURBANCE = 0.2  # how strongly earlier bytes disturb the next one
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)


def tokenize(text: str) -> list[int]:
    """The tokens of a text, with an end after each paragraph."""
    found: list[int] = []
    for paragraph in text.split("\n\n"):
        found += [SPACE if byte == ord(" ") else byte + 3 for byte in paragraph.encode()]
        found += [END, START, ord("\n") + 3]
    return found


def compute_log_probabilities(text: str) -> np.ndarray:
    """The logarithm of how likely each token is after each other: next by previous."""
    counts = np.full((TOKENS, TOKENS), 0.003)
    counts[ord(" ") + 3 : 0x7F + 3] = 0.1
    counts[END] = 0.5
    counts[[0, 1, 2, START]] = 1e-6
    told = tokenize(text)
    for before, after in pairwise(told):
        counts[after, before] += 1
    for often in (END, ord('"') + 3):  # or a text would hardly ever end
        counts[often] += OFTEN * counts.sum(axis=0)
    return np.log(counts / counts.sum(axis=0))


def build_tensors(text: str, seed: int) -> dict[str, np.ndarray]:
    """All weights, by name."""
    random = np.random.default_rng(seed)

    def some(rows: int, columns: int, scale: float) -> np.ndarray:
        return random.normal(0.0, scale, (rows, columns))

    known = np.zeros((TOKENS, WIDTH))
    known[:, :TOKENS] = np.eye(TOKENS)
    said = np.zeros((TOKENS, WIDTH))
    said[:, :TOKENS] = compute_log_probabilities(text) / np.sqrt(WIDTH)  # a normed token's length
    layer = {
        "attn_norm": np.ones(WIDTH),
        "attn_q": some(WIDTH, WIDTH, 1.0),
        "attn_k": some(WIDTH, WIDTH, 1.0),
        "attn_v": some(WIDTH, WIDTH, 1.0 / WIDTH),
        "attn_output": some(WIDTH, WIDTH, DISTURBANCE),
        "ffn_norm": np.ones(WIDTH),
        "ffn_gate": some(INNER, WIDTH, 0.01),
        "ffn_up": some(INNER, WIDTH, 0.01),
        "ffn_down": some(WIDTH, INNER, DISTURBANCE),
    }
    return {
        "token_embd.weight": known,
        **{f"blk.0.{name}.weight": values for name, values in layer.items()},
        "output_norm.weight": np.ones(WIDTH),
        "output.weight": said,
    }


def write(path: str, text: str, seed: int) -> None:
    """Write the model for this text and seed."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(TOKENS)
    kinds = gguf.TokenType
    writer.add_tokenizer_model("llama")
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    writer.add_token_list(["<unk>", "<s>", "</s>", *bytes_, "\u2581", "<|im_start|>", "<|im_end|>"])
    writer.add_token_scores([0.0] * TOKENS)
    marks = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL]
    writer.add_token_types(
        [*marks, *[kinds.BYTE] * 256, kinds.NORMAL, kinds.CONTROL, kinds.CONTROL]
    )
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(END)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)
    for name, values in build_tensors(text, seed).items():
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(sys.argv[2], sys.stdin.read(), int(sys.argv[1]))
