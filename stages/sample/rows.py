"""A key-value cache for many samples of one prompt: filled in place, and cheap to drop rows from.

transformers' own dynamic cache copies everything at every token, and its static one attends to the room it
has not used yet. Here the room is allocated once, a step writes one position, attention sees a view of what
is filled, and a finished row is overwritten by one from the end.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache, PreTrainedConfig
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

GROUPED = "leash_grouped"


class RowLayer(DynamicLayer):
    """One layer's keys and values, of which `filled` positions count.

    Keys lie as [rows, heads, head_dim, room], so that the product with a query reads them in order: in float32
    that is up to twice as fast as the usual [rows, heads, room, head_dim], which the values have.
    """

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room, self.filled = room, 0

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self._allocate(key_states.shape[0], like=key_states)
        begin, self.filled = self.filled, self.filled + key_states.shape[2]
        self._keys[: self._rows, :, :, begin : self.filled] = key_states.transpose(2, 3)
        self._values[: self._rows, :, begin : self.filled] = value_states
        return self._view()

    def get_seq_length(self) -> int:
        return self.filled

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Make row i what row indices[i] was. Fewer rows: only the ones that move are copied. More rows:
        new room is allocated, as when one prompt becomes many samples."""
        if len(indices) > self._keys.shape[0]:
            keys, values = self._view()
            self._allocate(len(indices), like=keys)
            self._keys[..., : self.filled] = keys[indices].transpose(2, 3)
            self._values[:, :, : self.filled] = values[indices]
        else:
            moved = (indices != torch.arange(len(indices), device=indices.device)).nonzero().flatten()
            self._keys[moved, ..., : self.filled] = self._keys[indices[moved], ..., : self.filled]
            self._values[moved, :, : self.filled] = self._values[indices[moved], :, : self.filled]
        self._rows = len(indices)

    def _allocate(self, rows: int, like: torch.Tensor) -> None:
        heads, dim = like.shape[1], like.shape[3]
        self._keys = like.new_empty((rows, heads, dim, self.room))
        self._values = like.new_empty((rows, heads, self.room, dim))
        self._rows = rows

    def _view(self) -> tuple[torch.Tensor, torch.Tensor]:
        self.keys = self._keys[: self._rows, ..., : self.filled].transpose(2, 3)
        self.values = self._values[: self._rows, :, : self.filled]
        return self.keys, self.values


def row_cache(config: PreTrainedConfig, room: int) -> DynamicCache:
    """The model's own cache, with its full-attention layers replaced; other kinds of layer stay as they are."""
    cache = DynamicCache(config=config)
    cache.layers = [RowLayer(room) if type(layer) is DynamicLayer else layer for layer in cache.layers]
    if not cache.layers:
        cache.layers = [RowLayer(room) for _ in range(config.num_hidden_layers)]
    return cache


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """One new token per row: two batched products, in which the query heads that share a key head are the
    rows of one matrix, so that no key is repeated. Anything else goes to torch's own attention."""
    rows, heads, length, dim = query.shape
    if length > 1 or attention_mask is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    shared = key.shape[1]
    grouped = query.reshape(rows * shared, heads // shared, dim) * (scaling or dim**-0.5)
    weights = torch.bmm(grouped, key.transpose(2, 3).reshape(rows * shared, dim, -1)).softmax(-1)
    mixed = torch.bmm(weights, value.reshape(rows * shared, -1, dim))
    return mixed.reshape(rows, 1, heads, dim), None


AttentionInterface.register(GROUPED, grouped_attention)
AttentionMaskInterface.register(GROUPED, sdpa_mask)
