"""Runtime API 1: every name that a tree patched for it can use."""

from __future__ import annotations

from ..backends.draft_extend import fill_draft_extend_v2
from ..backends.draft_steps import init_draft_steps, out_graph_draft_steps, replay_draft_steps
from ..backends.flash_attention import (
    fill_flash_attention,
    fill_flash_attention_steps,
    share_flash_attention_steps,
)
from ..backends.trtllm import fill_trtllm_mha
from .accepted_rows import (
    accepted_logits,
    accepted_states,
    ask_for_accepted,
    load_accepted_rows,
    name_accepted_rows,
    narrow_draft_extend,
    own_accepted_states,
    rows_of_batch,
)
from .accepted_tokens import (
    accepted_lists,
    commit_accepted,
    extend_of_accepted,
    fill_padded,
    gathered_once,
    host_sum,
    joined_paths,
)
from .attention_calls import in_place, planned_once, queries
from .backend_names import name_of_backend, named_backend
from .copies import copy_together
from .decision import (
    UNDECLARED,
    decide_needs_cpu_seq_lens,
    decide_with_piecewise_graphs,
    report_mirror,
    spec_v2_backends,
    with_draft_positions,
    with_switches,
)
from .draft_chain import draft_chain, draft_top_k, pass_draft_tokens
from .draft_extend_graphs import draft_extend_logits, graphs_draft_extend, share_draft_extend_tables
from .draft_graph import capture_draft, run_draft
from .fences import fence_shared_reads, publish_shared_reads
from .flash_attention import (
    flash_attention_branches_need_mirror,
    flash_attention_needs_mirror,
    flash_attention_steps_need_mirror,
    flash_attention_whole_needs_mirror,
)
from .flashinfer import (
    capture_flashinfer_draft_extend,
    noting_plans,
    plan_extend_from_host,
    plan_verify_from_host,
    replay_flashinfer_draft_extend,
    step_offsets,
)
from .flashmla import (
    as_flashmla_verify,
    flashmla_bounds,
    flashmla_lens,
    flashmla_needs_mirror,
    flashmla_steps_need_mirror,
    plan_flashmla_draft_extend,
)
from .grammars import lacks_rollback
from .head_graph import capture_head, is_prepared, run_head
from .hidden_states import hidden_states_of, hidden_states_to_end
from .known_rows import last_accepted, mark_neighbours, neighbours
from .lengths import (
    draft_extend_lens,
    host_lens,
    host_total,
    lens_on_device,
    lens_sum,
    longest,
    longest_or_bound,
    mirror_uniform_extend_lens,
    padded_total,
    restore_host_lens,
    row_length,
    size_or_bound,
    total_or_bound,
    tree_mask_total,
)
from .linear_attention import commit_states, replay_states
from .metrics import decode_seq_lens, decode_total_seq_lens
from .multimodal import positions_of_text, with_last_tokens
from .overlap import require_overlap_hook, require_overlap_hook_to_verify
from .prefills import tokens_after_prefill
from .ranks import decide_as_first_rank
from .relay import keep_lens, keep_results, kept_lens, kept_results, store_kept_results
from .replays import padded_replay, replay_padding
from .report import warn_of_absent_patches
from .sparse_attention import (
    has_no_requests,
    restore_sparse_lens,
    sparse_columns,
    sparse_extend_lens,
)
from .step_inputs import draft_positions, draft_slots, is_filled, mark_filled, verify_slots
from .stops import length_at_stop, mark_accepted, meets_stop, stops_by_limit, tail_of_step
from .streams import await_event, lens_to_device, order_plan_stream
from .tail_graph import capture_tail, run_tail
from .transfers import is_abort, notify_of_abort
from .tree_mask import has_full_mask, preallocated_mask, tree_rows, verify_mask
from .triton_attention import replay_triton_extend, replay_triton_extend_v2, replay_triton_verify
from .verify_outputs import (
    chain_bonus_tokens,
    chain_extend_lens,
    chain_extended_lens,
    chain_positions,
    chain_prefix_lens,
    compact_paths,
    copy_outputs,
    correct_drafts,
    lens_after_verify,
    verify_chain,
    verify_outputs,
    wide_tokens,
    with_bonus,
)

# An unknown name in PATCHKIT_DISABLE is an error when the server starts, a name without effect a warning.
warn_of_absent_patches()
