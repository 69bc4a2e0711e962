"""What a call hands on, returns and sets, and which function it runs."""

from __future__ import annotations

import pytest
from support.audited import expected, program

from patchkit.audit.engine import audit

FUNCTIONS = {
    "what_returns_none_before_it_sets_the_mirror": """\
def plan(batch, flag): pick(batch, flag).seq_lens_cpu.max()
def pick(batch, flag):
    if flag: return None
    batch.seq_lens_cpu = batch.seq_lens.cpu()
    return batch
""",
    "what_sets_the_mirror_of_a_batch_that_it_tests_for_none": """\
def plan(batch, flag):
    fill(batch, flag)
    batch.seq_lens_cpu.max()
def other(flag): fill(None, flag)
def fill(batch, flag):
    if batch is not None and flag: flag = 2
    batch.seq_lens_cpu = batch.seq_lens.cpu()
""",
    "positional": """\
def plan(batch): use(1, batch.seq_lens_cpu)
def use(one, lens): one.max(); lens.max()  # finds PK101
""",
    "by_keyword": """\
def plan(batch): use(lens=batch.seq_lens_cpu, one=1)
def use(one, lens): one.max(); lens.max()  # finds PK101
""",
    "behind_a_starred_argument": """\
def plan(batch, table): use(*table, batch.seq_lens_cpu)
def use(one, lens): one.max(); lens.max()
""",
    "before_a_starred_argument": """\
def plan(batch, table): use(batch.seq_lens_cpu, *table)
def use(lens, one): one.max(); lens.max()  # finds PK101
""",
    "more_than_there_are_parameters": """\
def plan(batch): use(1, batch.seq_lens_cpu, batch.seq_lens_cpu)
def use(one, *more, two=1): one.max(); two.max()
""",
    "of_an_unknown_keyword": """\
def plan(batch): use(1, other=batch.seq_lens_cpu)
def use(one, **more): one.max()
""",
    "keyword_only_and_positional_only": """\
def plan(batch): use(batch.seq_lens_cpu, two=batch.seq_lens_cpu)
def use(one, /, *, two):
    one.max()  # finds PK101
    two.max()  # finds PK101
""",
    "returned": """\
def plan(batch): found(batch).max()  # finds PK101
def found(batch): return batch.seq_lens_cpu
""",
    "returned_on_one_way": """\
def plan(batch, flag): found(batch, flag).max()  # finds PK101
def found(batch, flag):
    if flag:
        return batch.seq_lens
    return batch.seq_lens_cpu
""",
    "returned_in_a_pair": """\
def plan(batch):
    one, two = found(batch)
    one.max()
    two.max()  # finds PK101
def found(batch): return 1, batch.seq_lens_cpu
""",
    "returned_in_pairs_of_two_ways": """\
def plan(batch, flag):
    one, two = found(batch, flag)
    one.max()  # finds PK101
    two.max()
def found(batch, flag):
    if flag:
        return 1, 2
    return batch.seq_lens_cpu, 2
""",
    "nothing_returned": """\
def plan(batch): found(batch).max()
def found(batch): batch.seq_lens_cpu
""",
    "returned_from_a_function_that_always_raises": """\
def plan(batch): found(batch).max()
def found(batch): raise ValueError(batch.seq_lens_cpu)
""",
    "a_batch_returned": """\
def plan(batch): found(batch).seq_lens_cpu.max()  # finds PK101
def found(batch):
    batch.seq_lens_sum = 1
    return batch
""",
    "a_batch_returned_with_its_mirror": """\
def plan(batch): found(batch).seq_lens_cpu.max()
def found(batch):
    batch.seq_lens_cpu = batch.seq_lens.cpu()
    return batch
""",
    "a_batch_returned_beside_one_with_its_mirror": """\
def plan(batch, other): found(batch, other).seq_lens_cpu.max()  # finds PK101
def found(batch, other_batch):
    kept = batch.seq_lens_cpu
    other_batch.seq_lens_cpu = [1]
    return batch
""",
    "set_by_the_callee": """\
def plan(batch):
    fill(batch)
    batch.seq_lens_cpu.max()
    batch.seq_lens_sum + 1  # finds PK104
def fill(batch): batch.seq_lens_cpu = [1]
""",
    "set_by_the_callee_on_one_way": """\
def plan(batch, flag):
    fill(batch, flag)
    batch.seq_lens_cpu.max()  # finds PK101
def fill(batch, flag):
    if flag:
        batch.seq_lens_cpu = [1]
""",
    "set_by_the_callee_on_each_way": """\
def plan(batch, flag):
    fill(batch, flag)
    batch.seq_lens_cpu.max()
def fill(batch, flag):
    if flag:
        batch.seq_lens_cpu = [1]
        return
    batch.seq_lens_cpu = [2]
""",
    "set_by_the_callee_of_a_callee": """\
def plan(batch):
    outer(batch)
    batch.seq_lens_cpu.max()
def outer(batch): fill(batch)
def fill(batch): batch.seq_lens_cpu = [1]
""",
    "set_on_another_object_of_the_callee": """\
def plan(batch, other_batch):
    fill(other_batch, batch)
    batch.seq_lens_cpu.max()  # finds PK101
def fill(batch, other): batch.seq_lens_cpu = [1]
""",
    "set_by_the_callee_before_one_of_two_returns": """\
def plan(batch, flag):
    fill(batch, flag)
    batch.seq_lens_cpu.max()  # finds PK101
def fill(batch, flag):
    if flag:
        batch.seq_lens_cpu = [1]
        return
    batch.reqs = []
""",
    "set_by_the_callee_before_the_other_of_two_returns": """\
def plan(batch, flag):
    fill(batch, flag)
    batch.seq_lens_cpu.max()  # finds PK101
def fill(batch, flag):
    if flag:
        return
    batch.seq_lens_cpu = [1]
""",
    "cleared_by_the_callee_before_one_of_two_returns": """\
def plan(batch, flag):
    batch.seq_lens_cpu = [1]
    clear(batch, flag)
    batch.seq_lens_cpu.max()  # finds PK101
def clear(batch, flag):
    if flag:
        return
    batch.seq_lens_cpu = None
""",
    "a_batch_returned_twice_and_filled_once": """\
def plan(batch, flag): found(batch, flag).seq_lens_cpu.max()  # finds PK101
def found(batch, flag):
    if flag:
        batch.seq_lens_cpu = [1]
        return batch
    return batch
""",
    "a_batch_returned_twice_and_filled_each_time": """\
def plan(batch, flag): found(batch, flag).seq_lens_cpu.max()
def found(batch, flag):
    if flag:
        batch.seq_lens_cpu = [1]
        return batch
    batch.seq_lens_cpu = [2]
    return batch
""",
    "an_object_returned_twice_with_other_attributes": """\
def plan(batch, flag): found(batch, flag).first.max()  # finds PK101
def found(batch, flag):
    made = Elsewhere(last=1)
    if flag:
        made.other = 1
        return made
    made.first = batch.seq_lens_cpu
    return made
""",
    "an_argument_that_is_none": """\
def plan(batch, flag):
    if flag is None: batch.seq_lens_cpu.max()  # finds PK101
def annotated(batch, held: Elsewhere):
    if held is None: batch.seq_lens_cpu.max()  # finds PK101
def speculative(batch, spec_info):
    if spec_info is None: batch.seq_lens_cpu.max()
""",
    "a_copy_of_a_batch_that_was_filled": """\
def plan(batch):
    batch.seq_lens_cpu = [1]
    made = copy(batch)
    made.seq_lens_cpu.max()
    made.seq_lens_sum + 1  # finds PK104
""",
    "a_copy_of_an_object": """\
def plan(batch, held):
    held.lens = batch.seq_lens_cpu
    held.kept = 1
    made, other = copy(held), copy(unknown)
    made.kept.max()
    made.lens.max()  # finds PK101
    other.lens.max()
""",
    "a_copy_of_an_object_beside_another": """\
def plan(batch, held, kept):
    held.lens = batch.seq_lens_cpu
    made = copy(kept)
    made.lens.max()
    held.lens.max()  # finds PK101
""",
    "a_copy_with_another_attribute": """\
def plan(batch, held):
    made = replace(held, lens=batch.seq_lens_cpu, **held)
    held.lens.max()
    made.lens.max()  # finds PK101
""",
    "a_function_inside_with_the_class_of_its_argument": """\
class Inner:
    def use(self, lens): lens.max()  # finds PK101
class Other:
    def use(self, lens): lens.max()
def plan(batch):
    def by_annotation(held: Inner, /): held.use(batch.seq_lens_cpu)
    def by_name(forward_batch, *, other_batch: "Other"): forward_batch.seq_lens_cpu.max()  # finds PK101
""",
    "cleared_by_the_callee": """\
def plan(batch):
    batch.seq_lens_cpu = [1]
    clear(batch)
    batch.seq_lens_cpu.max()  # finds PK101
def clear(batch): batch.seq_lens_cpu = None
""",
    "filled_by_each_caller": """\
def first(batch):
    batch.seq_lens_cpu = [1]
    use(batch)
def second(batch):
    batch.seq_lens_cpu = [2]
    use(batch)
def use(batch): batch.seq_lens_cpu.max()
""",
    "filled_by_one_caller": """\
def first(batch):
    batch.seq_lens_cpu = [1]
    use(batch)
def second(batch): use(batch)
def use(batch): batch.seq_lens_cpu.max()  # finds PK101
""",
    "filled_in_the_speculative_input": """\
def first(batch):
    batch.spec_info.seq_lens_cpu = [1]
    use(batch)
def use(batch): batch.spec_info.seq_lens_cpu.max()
""",
    "unfilled_in_the_speculative_input": """\
def first(batch): use(batch)
def use(batch): batch.spec_info.seq_lens_cpu.max()  # finds PK101
""",
    "of_itself": """\
def plan(batch, lens): lens.max(); plan(batch, batch.seq_lens_cpu)  # finds PK101
""",
    "of_each_other": """\
def start(batch): plan(batch, 1)
def plan(batch, lens): other(batch, batch.seq_lens_cpu)
def other(batch, lens): lens.max(); plan(batch, lens)  # finds PK101
""",
    "for_a_capture_by_its_name": """\
def plan(batch): capture_one(batch.seq_lens_cpu)
def capture_one(lens): lens.max()
""",
    "for_a_capture_by_a_flag": """\
def plan(batch):
    run(batch.seq_lens_cpu, in_capture=True)
    run(batch.seq_lens_cpu, other=True)
def run(lens, in_capture=False, other=False): use(lens)
def use(lens): lens.max()  # finds PK101
""",
    "for_a_capture_by_a_flag_alone": """\
def plan(batch): run(batch.seq_lens_cpu, in_capture=True)
def run(lens, in_capture=False): lens.max()
""",
    "where_no_capture_runs": """\
def plan(batch): run(batch)
def run(batch, in_capture=False):
    if in_capture:
        return batch.seq_lens_cpu.max()
    return batch.seq_lens_sum + 1  # finds PK104
""",
}

CLASSES = {
    "a_method_of_self": """\
class Plan:
    def run(self, batch): self.use(batch.seq_lens_cpu)
    def use(self, lens): lens.max()  # finds PK101
""",
    "a_method_of_the_base": """\
class Base:
    def use(self, lens): lens.max()  # finds PK101
class Plan(Base):
    def run(self, batch): self.use(batch.seq_lens_cpu)
""",
    "a_method_of_super": """\
class Base:
    def use(self, lens): lens.max()  # finds PK101
class Plan(Base):
    def use(self, lens): super().use(lens)
    def run(self, batch): self.use(batch.seq_lens_cpu)
""",
    "a_method_that_super_lacks": """\
class Base: pass
class Plan(Base):
    def use(self, lens): super().use(lens).max()
    def run(self, batch): self.use(batch.seq_lens_cpu)
""",
    "super_outside_of_a_class": """\
def run(batch): super().use(batch.seq_lens_cpu.max())  # finds PK101
""",
    "a_static_method": """\
class Plan:
    @staticmethod
    def use(lens, one): one.max(); lens.max()  # finds PK101
    def run(self, batch): self.use(batch.seq_lens_cpu, 1)
""",
    "a_static_method_of_the_class": """\
class Plan:
    @staticmethod
    def use(lens, one): one.max(); lens.max()  # finds PK101
def run(batch): Plan.use(batch.seq_lens_cpu, 1)
""",
    "a_class_method": """\
class Plan:
    @classmethod
    def use(cls, lens, one): one.max(); lens.max()  # finds PK101
def run(batch): Plan.use(batch.seq_lens_cpu, 1)
""",
    "an_unbound_method": """\
class Plan:
    def use(self, one, lens): one.max(); lens.max()  # finds PK101
def run(batch, plan): Plan.use(plan, 1, batch.seq_lens_cpu)
""",
    "a_method_that_the_class_lacks": """\
class Plan: pass
def run(batch): Plan.use(batch.seq_lens_cpu).max()
""",
    "a_constructor": """\
class Plan:
    def __init__(self, one, lens): one.max(); lens.max()  # finds PK101
def run(batch): Plan(1, batch.seq_lens_cpu)
""",
    "a_constructor_of_cls": """\
class Plan:
    def __init__(self, lens): lens.max()  # finds PK101
    @classmethod
    def run(cls, batch): cls(batch.seq_lens_cpu)
""",
    "a_field_by_position": """\
class Plan:
    one: int
    lens: list
def run(batch):
    plan = Plan(1, batch.seq_lens_cpu)
    plan.one.max()
    plan.lens.max()  # finds PK101
""",
    "a_field_of_the_base_by_position": """\
class Base:
    one: int
class Plan(Base):
    lens: list
    one: int
def run(batch):
    plan = Plan(1, batch.seq_lens_cpu)
    plan.one.max()
    plan.lens.max()  # finds PK101
""",
    "a_field_by_keyword": """\
def run(batch):
    plan = Elsewhere(lens=batch.seq_lens_cpu, one=1)
    plan.one.max()
    plan.lens.max()  # finds PK101
""",
    "more_arguments_than_fields": """\
class Plan:
    one: int
def run(batch): Plan(1, batch.seq_lens_cpu).one.max()
""",
    "a_batch_without_a_sum": """\
def run(batch):
    made = ScheduleBatch(reqs=[], seq_lens_cpu=[1])
    made.seq_lens_cpu.max()
    made.seq_lens_sum + 1  # finds PK104
""",
    "a_batch_with_none": """\
def run(batch):
    made = ScheduleBatch(reqs=[], seq_lens_cpu=None, seq_lens_sum=1)
    made.seq_lens_sum + 1
    made.seq_lens_cpu.max()  # finds PK101
""",
    "a_new_object_at_the_same_place": """\
def run(batch, table):
    for each in table:
        made = ScheduleBatch(reqs=[], seq_lens_cpu=[1], seq_lens_sum=1)
        made.seq_lens_sum + 1
        made.seq_lens_sum = None
""",
    "an_object_made_anew_in_each_round": """\
def run(batch, table):
    for each in table:
        made = copy(each)
        made.lens.max()
        made.lens = batch.seq_lens_cpu
""",
    "an_object_made_on_one_way": """\
def run(batch, flag):
    if flag:
        made = ScheduleBatch(reqs=[], seq_lens_cpu=[1], seq_lens_sum=1)
    made.seq_lens_cpu.max()
""",
    "a_list_made_on_one_way": """\
def run(batch, flag):
    if flag:
        made = [1]
    if isinstance(made, Tensor):
        batch.seq_lens_cpu.max()
""",
    "an_attribute_of_an_element_set_on_one_way": """\
def run(batch, table, flag):
    if flag:
        table[0].lens = batch.seq_lens_cpu
    table[1].lens.max()
    batch.seq_lens_cpu.max()  # finds PK101
""",
    "a_batch_kept_where_the_mirror_was": """\
class Plan:
    def run(self, other_batch, flag):
        self.batch = other_batch.seq_lens_cpu
        if flag: self.batch = flag
    def use(self):
        if self.batch is not None:
            self.batch.seq_lens_cpu.max()  # finds PK101
""",
    "an_attribute_of_a_class_that_can_be_none_instead": """\
class Inner:
    def use(self, lens): lens.max()  # finds PK101
class Other:
    def use(self, lens): lens.max()
class Plan:
    def __init__(self, held: Inner): self.held = held
    def run(self, batch, flag):
        self.held = batch.seq_lens_cpu
        if flag: self.held = unknown(flag)
    def use(self, batch):
        if self.held is not None: self.held.use(batch.seq_lens_cpu)
""",
    "a_method_of_a_plan_that_has_a_mode_of_its_own": """\
class Plan:
    def __init__(self): self.forward_mode = ForwardMode.DECODE
    def run(self, batch): self.use(batch, batch.seq_lens_cpu)
    def use(self, batch, lens):
        if batch.forward_mode.is_target_verify(): lens.max()  # finds PK101
""",
    "an_argument_named_like_an_enum": """\
class Stage(Enum):
    FIRST = 1
    LAST = 2
def run(batch):
    stage = Stage.FIRST
    if stage == Stage.LAST: batch.seq_lens_cpu.max()
def other(batch, Stage):
    stage = Stage.FIRST
    if stage == Stage.LAST: batch.seq_lens_cpu.max()  # finds PK101
def bound(batch):
    Stage = unknown()
    stage = Stage.FIRST
    if stage == Stage.LAST: batch.seq_lens_cpu.max()  # finds PK101
""",
    "a_method_of_a_batch_by_its_name_alone": """\
class ForwardBatch:
    def use(self, lens): lens.max()
def run(batch, held): held.use(batch.seq_lens_cpu)
""",
    "a_method_of_a_speculative_input_by_its_name_alone": """\
class ForkInput(SpecInput):
    def use(self, lens): lens.max()
def run(batch, held): held.use(batch.seq_lens_cpu)
""",
    "a_method_of_the_speculative_input_and_of_others": """\
class ForkInput(SpecInput):
    def use(self, lens): lens.max()  # finds PK101
class Other:
    def use(self, lens): lens.max()
def run(batch): batch.spec_info.use(batch.seq_lens_cpu)
""",
    "an_attribute_that_another_method_reads": """\
class Plan:
    def run(self, batch): self.lens = batch.seq_lens_cpu
    def use(self): self.lens.max()  # finds PK101
""",
    "an_attribute_that_a_method_of_an_heir_reads": """\
class Base:
    def run(self, batch): self.lens = batch.seq_lens_cpu
class Plan(Base):
    def use(self): self.lens.max()  # finds PK101
    def __init__(self): self.run(None)
""",
    "an_attribute_that_is_there": """\
class Plan:
    def run(self, batch): self.lens = batch.seq_lens
    def use(self): self.lens.max()
""",
    "a_method_by_the_class_of_an_attribute": """\
class Inner:
    def use(self, lens): lens.max()  # finds PK101
class Plan:
    def __init__(self): self.held = Inner()
    def run(self, batch): self.held.use(batch.seq_lens_cpu)
""",
    "a_method_by_an_annotation": """\
class Inner:
    def use(self, lens): lens.max()  # finds PK101
class Other:
    def use(self, lens): lens.max()
def run(batch, held: Inner): held.use(batch.seq_lens_cpu)
""",
    "a_method_by_an_annotated_assignment": """\
class Inner:
    def use(self, lens): lens.max()  # finds PK101
class Other:
    def use(self, lens): lens.max()
def run(batch):
    held: Inner = unknown()
    held.use(batch.seq_lens_cpu)
""",
    "a_method_by_an_annotation_that_names_no_class": """\
class Inner:
    def use(self, lens): lens.max()  # finds PK101
def run(batch):
    held: Elsewhere = unknown()
    held.use(batch.seq_lens_cpu)
""",
    "a_method_by_a_test_of_the_class": """\
class Inner:
    def use(self, lens): lens.max()  # finds PK101
class Other:
    def use(self, lens): lens.max()
def run(batch, held, kept):
    if isinstance(held, Inner) and kept:
        held.use(batch.seq_lens_cpu)
""",
    "a_method_that_its_class_lacks": """\
class Inner: pass
class Other:
    def use(self, lens): lens.max()
def run(batch, held: Inner): held.use(batch.seq_lens_cpu).max()
""",
    "a_method_by_its_name_alone": """\
class Inner:
    def use(self, lens): lens.max()  # finds PK101
def run(batch, held): held.use(batch.seq_lens_cpu)
""",
    "a_method_that_many_classes_have": "".join(
        f"class C{index}:\n    def use(self, lens): lens.max()\n" for index in range(7)
    )
    + "def run(batch, held): held.use(batch.seq_lens_cpu)\n",
    "a_method_that_six_classes_have": "".join(
        f"class C{index}:\n    def use(self, lens): lens.max()  # finds PK101\n" for index in range(6)
    )
    + "def run(batch, held): held.use(batch.seq_lens_cpu)\n",
    "a_tensor_of_the_mirror_is_there": """\
def run(batch):
    lens = torch.tensor([1])
    if isinstance(lens, list):
        batch.seq_lens_cpu.max()
    if isinstance(lens, Tensor):
        batch.seq_lens_sum + 1  # finds PK104
""",
    "a_list_of_a_tensor": """\
def run(batch, lens):
    if isinstance(sorted(lens), Tensor):
        batch.seq_lens_cpu.max()
    if isinstance([1] * 2, Tensor):
        batch.seq_lens_cpu.max()
    if isinstance([each for each in lens], Tensor):
        batch.seq_lens_cpu.max()
""",
    "a_sum_of_tensors": """\
def run(batch, table):
    if isinstance(sum(table), Tensor):
        batch.seq_lens_cpu.max()  # finds PK101
""",
}

MODULES = {
    "a_function_of_a_module": """\
# place: srt/managers/example.py
from sglang.srt.managers import helpers
def run(batch):
    helpers.use(batch.seq_lens_cpu)
    helpers.Plan(batch.seq_lens_cpu)
    helpers.missing(batch.seq_lens_cpu).max()
# place: srt/managers/helpers.py
class Plan:
    def __init__(self, lens): lens.max()  # finds PK101
def use(lens): lens.max()  # finds PK101
""",
    "a_method_of_a_feature_that_keeps_the_mirror": """\
# place: srt/managers/example.py
def run(batch, held): held.use(batch.seq_lens_cpu)
# place: srt/layers/two_batch_overlap.py
# seq_lens_cpu
class Split:
    def use(self, lens): lens.max()
""",
    "an_imported_function": """\
# place: srt/managers/example.py
from sglang.srt.managers.helpers import use as used
def run(batch): used(batch.seq_lens_cpu)
# place: srt/managers/helpers.py
def use(lens): lens.max()  # finds PK101
""",
    "a_function_of_a_feature_that_keeps_the_mirror": """\
# place: srt/managers/example.py
from sglang.srt.layers.two_batch_overlap import use
def run(batch): use(batch.seq_lens_cpu)
# place: srt/layers/two_batch_overlap.py
# seq_lens_cpu
def use(lens): lens.max()
""",
    "backends_that_are_no_slots": """\
# place: srt/managers/decision.py
def fork_needs_cpu_seq_lens(attn_backends, others):
    for each in others:
        each.needs_cpu_seq_lens
    for each in attn_backends:
        each.name
        getattr(each, "needs_cpu_seq_lens", True)
        getattr(each, "needs_cpu_seq_lens")  # finds PK111
def another(attn_backends):
    for each in attn_backends:
        each.needs_cpu_seq_lens
# place: srt/speculative/fork_worker.py
class ForkWorker(BaseSpecWorker):
    # Its slots decide about seq_lens_cpu.
    @property
    def spec_v2_attn_backends(self): return (self.target.attn_backend, self._draft.draft_extend_attn_backend)
""",
    "a_receiver_that_nothing_names": """\
class Table:
    def refresh_lens(self, batch): batch.seq_lens_cpu.max()  # finds PK101
def plan(table): table[0].refresh_lens(table[1])
""",
    "a_user_of_an_attribute_that_is_set_twice": """\
class Kept:
    def keep(self, batch):
        self.lens = batch.seq_lens_cpu
        self.lens = batch.seq_lens
    def use(self): self.lens.max()  # finds PK101
""",
    "an_annotated_result": """\
# place: srt/managers/example.py
from sglang.srt.managers.helpers import made
def run(batch): made().use(batch.seq_lens_cpu)
# place: srt/managers/helpers.py
# seq_lens_cpu
def made() -> Inner: return unknown()
# place: srt/managers/inner.py
# seq_lens_cpu
class Inner:
    def use(self, lens): lens.max()  # finds PK101
# place: srt/managers/other.py
# seq_lens_cpu
class Other:
    def use(self, lens): lens.max()
""",
}
SOURCES = {**FUNCTIONS, **CLASSES, **MODULES}


@pytest.mark.parametrize("name", SOURCES)
def test_a_call_of(name: str) -> None:
    source = SOURCES[name]
    found = {(finding.file, finding.line, finding.rule) for finding in audit(program(source)).findings}
    assert found == {(mark.file, mark.line, mark.rule) for mark in expected(source)}
