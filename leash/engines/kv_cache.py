"""A key-value cache for many samples of one prompt: filled in place, and cheap to drop rows from or add rows to.

transformers' dynamic cache copies everything at every token, and its static cache attends to positions that are not
filled yet. Here memory is allocated once, a step writes one position, attention sees a view of the filled positions,
and a finished row is overwritten by one from the end.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache, PreTrainedConfig
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

GROUPED_ATTENTION_NAME = "leash_grouped"


class InPlaceCacheLayer(DynamicLayer):
    """Keys and values of one layer, with memory for `capacity` positions.

    Keys are stored as [rows, heads, head_dim, capacity], so that the product with a query reads memory in order. In
    float32 that is up to twice as fast as the usual [rows, heads, capacity, head_dim], which the values have.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity, self.filled = capacity, 0

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
        """Replace row i by row indices[i]. With fewer rows, only the rows that move are copied. With more rows (one
        prompt becomes many samples), new memory is allocated."""
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

    def append(self, other: InPlaceCacheLayer, indices: torch.Tensor) -> None:
        """Add row indices[i] of another cache that is filled as far as this one, for every i."""
        begin, end = self._rows, self._rows + len(indices)
        if end > self._keys.shape[0]:
            keys, values = self._view()
            # Twice the rows: a cache that grows by a few rows at a time must not be copied every time.
            self._allocate(max(end, 2 * begin), like=keys)
            self._keys[:begin, ..., : self.filled] = keys.transpose(2, 3)
            self._values[:begin, :, : self.filled] = values
        keys, values = other._view()
        self._keys[begin:end, ..., : self.filled] = keys[indices].transpose(2, 3)
        self._values[begin:end, :, : self.filled] = values[indices]
        self._rows = end

    def _allocate(self, rows: int, like: torch.Tensor) -> None:
        heads, dim = like.shape[1], like.shape[3]
        self._keys = like.new_empty((rows, heads, dim, self.capacity))
        self._values = like.new_empty((rows, heads, self.capacity, dim))
        self._rows = rows

    def _view(self) -> tuple[torch.Tensor, torch.Tensor]:
        # transformers reads `keys` and `values` of a layer elsewhere, so they are always the current view.
        self.keys = self._keys[: self._rows, ..., : self.filled].transpose(2, 3)
        self.values = self._values[: self._rows, :, : self.filled]
        return self.keys, self.values


def build_kv_cache(config: PreTrainedConfig, capacity: int) -> DynamicCache:
    """The model's usual cache with its full-attention layers replaced. Other kinds of layer (sliding windows, states)
    stay as they are."""
    cache = DynamicCache(config=config)
    cache.layers = [InPlaceCacheLayer(capacity) if type(layer) is DynamicLayer else layer for layer in cache.layers]
    if not cache.layers:
        cache.layers = [InPlaceCacheLayer(capacity) for _ in range(config.num_hidden_layers)]
    return cache


def can_append_rows(config: PreTrainedConfig) -> bool:
    """Whether all layers of a model's cache are our own: no others know how to append rows."""
    return all(isinstance(layer, InPlaceCacheLayer) for layer in build_kv_cache(config, 1).layers)


def append_rows(cache: DynamicCache, other: DynamicCache, indices: torch.Tensor) -> None:
    """Add rows of another cache that is filled as far as this one, so that both go on as one batch."""
    layers: Any = zip(cache.layers, other.layers, strict=True)
    for layer, theirs in layers:
        layer.append(theirs, indices)


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention for one new token per row, as two batched products. The query heads that share a key head are the rows
    of one matrix, so no key is repeated. All other cases use torch's own attention."""
    rows, heads, length, dim = query.shape
    if length > 1 or attention_mask is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    key_heads = key.shape[1]
    grouped = query.reshape(rows * key_heads, heads // key_heads, dim) * (scaling or dim**-0.5)
    weights = torch.bmm(grouped, key.transpose(2, 3).reshape(rows * key_heads, dim, -1)).softmax(-1)
    mixed = torch.bmm(weights, value.reshape(rows * key_heads, -1, dim))
    return mixed.reshape(rows, 1, heads, dim), None


AttentionInterface.register(GROUPED_ATTENTION_NAME, grouped_attention)
AttentionMaskInterface.register(GROUPED_ATTENTION_NAME, sdpa_mask)
