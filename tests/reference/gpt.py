"""The GPT of examples/gpt in Python: same names, same operators, same order, hence the same bits. Tests and benchmarks use it as the peer."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass(frozen=True)
class GptShape:
    vocab: int = 256
    seq: int = 128
    dim: int = 128
    layers: int = 4
    heads: int = 4
    tied: bool = False


class Block(nn.Module):
    def __init__(self, shape: GptShape):
        super().__init__()
        self.heads = shape.heads
        self.norm1 = nn.LayerNorm(shape.dim)
        self.qkv = nn.Linear(shape.dim, 3 * shape.dim)
        self.out = nn.Linear(shape.dim, shape.dim)
        self.norm2 = nn.LayerNorm(shape.dim)
        self.up = nn.Linear(shape.dim, 4 * shape.dim)
        self.down = nn.Linear(4 * shape.dim, shape.dim)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        q, k, v = self.qkv(x).view(batch, seq, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, seq, dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, shape: GptShape):
        super().__init__()
        self.shape = shape
        self.token = nn.Embedding(shape.vocab, shape.dim)
        self.position = nn.Embedding(shape.seq, shape.dim)
        for i in range(shape.layers):
            self.add_module(f"block{i}", Block(shape))
        self.norm = nn.LayerNorm(shape.dim)
        if not shape.tied:
            self.head = nn.Linear(shape.dim, shape.vocab, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for i in range(self.shape.layers):
            x = getattr(self, f"block{i}")(x)
        return F.linear(self.norm(x), self.token.weight if self.shape.tied else self.head.weight)

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self(tokens).view(-1, self.shape.vocab).float(), targets.reshape(-1))


class Losses(torch.nn.Module):
    """The loss of rows of tokens as a forward(), which is where DistributedDataParallel and its like hook in."""

    def __init__(self, gpt: Gpt) -> None:
        super().__init__()
        self.gpt = gpt

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.gpt.loss(rows[:, :-1], rows[:, 1:])


def fused_adamw(model: nn.Module, lr: float, weight_decay: float = 0.01) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=weight_decay, fused=True)
