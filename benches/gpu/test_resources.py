"""Tests of what resources.py reads from compiled code, and of the errors that it reports. They compile nothing.

    python3 benches/gpu/test_resources.py
"""

import csv
import math
import unittest

import floors
import floors_of_step
import resources
import sass

# Recorded: `attention_put_queries` for sm_90a by NVRTC 13.0.88, without some instructions between branches. It divides by a call, or with 32 bits.
DIVIDING = """
	.section	.text.attention_put_queries,"ax",@progbits
attention_put_queries:
.text.attention_put_queries:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0080*/               @P0 EXIT ;
        /*00e0*/                   BSSY B0, `(.L_x_599) ;
        /*0110*/              @!P0 BRA `(.L_x_600) ;
        /*0120*/                   MOV R0, 0x140 ;
        /*0130*/                   CALL.REL.NOINC `($__internal_27_$__cuda_sm20_div_u64) ;
        /*01c0*/                   BRA `(.L_x_601) ;
.L_x_600:
        /*01d0*/                   I2F.U32.RP R0, UR4 ;
.L_x_601:
        /*0330*/                   BSYNC B0 ;
.L_x_599:
        /*0400*/                   STG.E.U16 desc[UR8][R2.64], R7 ;
        /*0410*/                   EXIT ;
        .weak           $__internal_27_$__cuda_sm20_div_u64
        .type           $__internal_27_$__cuda_sm20_div_u64,@function
$__internal_27_$__cuda_sm20_div_u64:
        /*0430*/                   I2F.U64.RP R8, UR4 ;
        /*0830*/                   RET.REL.NODEC R4 `(attention_put_queries) ;
.L_x_602:
        /*0840*/                   BRA `(.L_x_602);
        /*0850*/                   NOP;
.L_x_2112:
"""

# By hand, in the form of the disassembler. The first loop has a way for packs and a way for single elements, and its slow root is behind the end. The
# second has a loop in it.
LOOPS = """
	.section	.text.loops,"ax",@progbits
.text.loops:
        /*0000*/                   S2R R0, SR_TID.X ;
.L_x_1:
        /*0010*/                   ISETP.NE.AND P0, PT, R2, RZ, PT ;
        /*0020*/              @!P0 BRA `(.L_x_2) ;
        /*0030*/               @P1 LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0040*/                   MUFU.RSQ R5, R4 ;
        /*0050*/               @P2 BRA `(.L_x_9) ;
.L_x_8:
        /*0060*/                   STG.E.128 desc[UR4][R2.64], R4 ;
        /*0070*/                   BRA `(.L_x_3) ;
.L_x_2:
        /*0080*/                   LDG.E R4, desc[UR4][R2.64] ;
.L_x_3:
        /*0090*/                   IADD3 R2, R2, 0x1, RZ ;
        /*00a0*/              @!P0 BRA `(.L_x_1) ;
.L_x_4:
        /*00b0*/                   MOV R6, RZ ;
.L_x_5:
        /*00c0*/                   FADD R7, R7, R6 ;
        /*00d0*/                   BRA.U UP0, `(.L_x_5) ;
        /*00e0*/               @P3 BRA `(.L_x_4) ;
        /*00f0*/                   EXIT ;
.L_x_9:
        /*0100*/                   CALL.REL.NOINC `($__internal_1_$__cuda_sm20_sqrt_rn_f32_slowpath) ;
        /*0110*/                   BRA `(.L_x_8) ;
.L_x_7:
        /*0120*/                   BRA `(.L_x_7);
        /*0130*/                   NOP;
"""

KEY = ("sm_90a", "BF16", "gelu")


def only(text):
    (kernel,) = sass.kernels(text).values()
    return kernel


def sizes(kernel, loops):
    """Own instructions of loops, with those of the loops in them."""
    return [(kernel.own_size(loop), sizes(kernel, loop.inner)) for loop in loops]


class Disassembled(unittest.TestCase):
    def test_a_kernel_without_loops_has_none(self):
        kernel = only(DIVIDING)
        self.assertEqual((kernel.name, kernel.num_instructions(), kernel.loops), ("attention_put_queries", 11, []))
        self.assertIsNone(kernel.hottest_loop())

    def test_loops_are_found_with_those_in_them(self):
        kernel = only(LOOPS)
        # Code behind the end that jumps back belongs to its loop; the endless branch and NOPs behind it are not counted.
        self.assertEqual(kernel.num_instructions(), 18)
        self.assertEqual(sizes(kernel, kernel.loops), [(12, []), (2, [(2, [])])])
        self.assertEqual(kernel.own_size(kernel.hottest_loop()), 12)

    def test_code_behind_the_end_that_jumps_back_once_is_no_loop(self):
        body = LOOPS.replace("@!P0 BRA `(.L_x_1)", "NOP").replace("@P3 BRA `(.L_x_4)", "NOP").replace("BRA.U UP0, `(.L_x_5)", "NOP")
        self.assertEqual(only(body).loops, [])

    def test_a_branch_with_a_predicate_among_its_operands_continues(self):
        for text, expected in (
            ("BRA `(.L_x_1)", False),
            ("@P0 BRA `(.L_x_1)", True),
            ("@!UP0 BRA `(.L_x_1)", True),
            ("BRA.U !UP0, `(.L_x_1)", True),
            ("BRA P1, `(.L_x_1)", True),
            ("BRA.DIV UR11, `(.L_x_1)", True),
            ("EXIT", False),
            ("@P0 EXIT", True),
            ("CALL.REL.NOINC `(f)", True),
        ):
            self.assertEqual(sass.continues(text), expected, text)

    def test_the_way_goes_through_packs_and_around_slow_paths(self):
        way = sass.way_of(only(LOOPS), floors.WIDE)
        self.assertEqual((way.num_accesses, way.passes), (0, [sass.Pass(2, 9)]))
        # The first instruction, one turn of the loop in a loop, and the end.
        self.assertEqual(way.num_instructions, 1 + 4 + 1)
        way = sass.way_of(only(DIVIDING), floors.STORE)
        self.assertEqual((way.num_accesses, way.num_instructions, way.passes), (1, 8, []))

    def test_divisions_are_calls_of_routines_or_their_code(self):
        kernel = only(DIVIDING)
        self.assertEqual((kernel.num_divisions(), kernel.num_divisions_in_loops()), (1, 0))
        self.assertEqual(only(LOOPS).num_divisions(), 0)
        for instruction in ("CALL.REL.NOINC `($__internal_3_$__cuda_sm20_rem_s64)", "I2F.U64.RP R8, UR4", "@P0 I2F.U64.RP R8, UR4"):
            kernel = only(LOOPS.replace("FADD R7, R7, R6", instruction))
            self.assertEqual((kernel.num_divisions(), kernel.num_divisions_in_loops()), (1, 1), instruction)
            kernel = only(LOOPS.replace("S2R R0, SR_TID.X", instruction))
            self.assertEqual((kernel.num_divisions(), kernel.num_divisions_in_loops()), (1, 0), instruction)


class Bounds(unittest.TestCase):
    counts = {KEY: {"instructions": 463, "loop": None, "issued": 1444}}

    def beyond(self, **changed):
        bounds = {KEY: self.counts[KEY] | changed}
        return floors.beyond(self.counts, bounds)

    def test_a_count_above_its_bound_is_an_error_that_says_what_to_do(self):
        self.assertEqual(self.beyond(), [])
        self.assertEqual(self.beyond(instructions=464), [])
        (finding,) = self.beyond(instructions=462)
        self.assertIn("sm_90a BF16 gelu: instructions 463, at most 462", finding)
        self.assertIn("raise the bound with --write and say why in the commit", finding)
        self.assertEqual(len(self.beyond(instructions=1, issued=1)), 2)
        self.assertEqual(len(self.beyond(issued=None)), 1)

    def test_kernels_and_bounds_are_the_same(self):
        self.assertIn("no bound", floors.beyond(self.counts, {})[0])
        self.assertIn("no such kernel", floors.beyond({}, self.counts)[0])

    def test_a_bound_that_can_be_lowered_is_named(self):
        self.assertEqual(floors.below(self.counts, self.counts), [])
        bounds = {KEY: self.counts[KEY] | {"issued": 1500}}
        self.assertEqual(floors.below(self.counts, bounds), ["sm_90a BF16 gelu: issued 1444, bound 1500"])

    def test_the_file_has_what_was_written(self):
        lines = floors.lines_of(self.counts)
        row = dict(zip(lines[0].split(","), lines[1].split(",")))
        self.assertEqual([row[f"{name}_max"] for name in floors.COUNTS], ["463", "", "1444"])
        # 1444 / 1024 instructions at 132 x 4 x 1.98 a nanosecond.
        self.assertAlmostEqual(float(row["ps"]), 1444 / 1024 / (528 * 1.98) * 1e3, places=3)

    def test_files_of_the_repository_have_the_same_kernels(self):
        with open(resources.TABLE, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        keys = {(row["architecture"], row["elements"], row["kernel"]) for row in rows}
        self.assertEqual(keys, set(floors.read_bounds()))
        self.assertEqual({key[0] for key in keys}, set(resources.ARCHITECTURES))
        self.assertLessEqual(floors.DIVIDES | floors.DIVIDES_IN_LOOPS | set(floors.WORK), {key[2] for key in keys})


class Divisions(unittest.TestCase):
    def test_a_new_division_is_an_error(self):
        divisions = {KEY: 2, ("sm_80", "F32", "rope"): 1}
        (finding,) = floors.wrong_divisions(divisions, {"rope"}, "in a loop")
        self.assertIn("sm_90a BF16 gelu: 2 64-bit divisions in a loop", finding)

    def test_a_listed_division_that_is_gone_is_an_error(self):
        divisions = {KEY: 0, ("sm_80", "F32", "rope"): 1}
        self.assertEqual(floors.wrong_divisions(divisions, {"rope"}, "in a loop"), [])
        (finding,) = floors.wrong_divisions(divisions, {"rope", "gelu"}, "in a loop")
        self.assertTrue(finding.startswith("gelu: no 64-bit division in a loop any more"))


class Spills(unittest.TestCase):
    def test_a_new_spill_and_a_listed_one_that_is_gone_are_errors(self):
        row = [255, 0, 4, 64, 20, 32, 0]
        found = {("sm_90a", "BF16", "attention_mma_64"): {"row": row, "divisions": 0, "divisions_in_loops": 0}}
        findings = resources.errors(found, resources.table(found))
        self.assertIn("sm_90a BF16 attention_mma_64: spills registers to memory", findings)
        self.assertIn("sm_100 BF16 norm_forward: spills no more; take it out of SPILLING in resources.py", findings)

    def test_a_kernel_for_tensor_cores_needs_their_instructions(self):
        row = [255, 0, 0, 0, 20, 32, 0]
        found = {("sm_90a", "BF16", "attention_mma_64"): {"row": row, "divisions": 0, "divisions_in_loops": 0}}
        self.assertTrue(any("tensor cores" in each for each in resources.errors(found, resources.table(found))))


class Costs(unittest.TestCase):
    def test_a_warp_takes_as_many_turns_as_its_row_needs(self):
        # norm_forward for sm_90a in bf16: 4 and 4 packs of 8 a turn, then 2.
        way = sass.Way(0, 124, [sass.Pass(4, 162), sass.Pass(4, 262), sass.Pass(8, 378)])
        cost = floors.cost("norm_forward", "BF16", way, 32768, 768)
        self.assertEqual(cost.total(), 32768 * (124 + 162 + 262 + 2 * 378))
        without_mean = floors.cost("norm_forward", "BF16", way, 32768, 768, leave_out=1)
        self.assertEqual(without_mean.total(), 32768 * (124 + 262 + 2 * 378))
        # 4096 blocks of 8 warps are 32 on the fullest of 132 multiprocessors.
        self.assertAlmostEqual(cost.seconds(), math.ceil(4096 / 132) * 8 * 1304 / (4 * 1.98e9))

    def test_blocks_of_columns_are_few(self):
        way = sass.Way(0, 138, [sass.Pass(8, 338)])
        cost = floors.cost("bias_backward", "BF16", way, 32768, 768)
        self.assertEqual((cost.num_blocks, cost.of_block), (48, 8 * (138 + 32 * 338)))

    def test_each_thread_has_a_pack(self):
        way = sass.Way(2, 361, [])
        self.assertEqual(floors.cost("gelu", "BF16", way, 1, 2048).total(), 8 * 361)
        self.assertEqual(floors.issued("gelu", "BF16", way), 4 * 361)

    def test_a_kernel_with_other_loops_than_its_work_is_named(self):
        for accesses in ([4, 6], [4, 4, 6], [4, 4, 8, 8]):
            way = sass.Way(0, 124, [sass.Pass(number, 100) for number in accesses])
            found = {("sm_90a", "BF16", "norm_forward"): {"way": way, "counts": {}}}
            findings = resources.count_issued(found)
            self.assertIn(f"sm_90a BF16 norm_forward: accesses {accesses}", findings[0])
        self.assertIn("gelu: in WORK of floors.py, but no such kernel; take it out", findings)

    def test_models_have_their_sizes(self):
        millions = [round(model.num_parameters() / 1e6) for model in floors_of_step.MODELS]
        self.assertEqual(millions, [124, 1316, 2796])
        for model in floors_of_step.MODELS:
            for call in floors_of_step.calls_of_step(model):
                self.assertIn(call.kernel, floors.WORK)
        # GPT-2 has 50304 logits: twelve blocks of 4096, and one of 1152.
        calls = floors_of_step.calls_of_step(floors_of_step.MODELS[0])
        self.assertEqual(sum(call.num_calls for call in calls if call.kernel == "cross_entropy"), 13)

    def test_an_account_says_what_bounds_each_kernel(self):
        model = floors_of_step.MODELS[0]
        ways = {}
        for call in floors_of_step.calls_of_step(model):
            work = floors.WORK[call.kernel]
            accesses = [each[0 if call.elements == "F32" else 1] for each in work.accesses]
            is_thread = work.threads == "thread"
            passes = [] if is_thread else [sass.Pass(number, 10) for number in accesses]
            ways[call.elements, call.kernel] = sass.Way(accesses[0] if is_thread else 0, 10_000 if call.kernel == "gelu" else 10, passes)
        lines = floors_of_step.lines_of(model, ways)
        # 12 calls of 100,663,296 / 8 / 32 warps with 10,000 instructions, 3724 x 8 of them on the fullest multiprocessor.
        us = math.ceil(32768 * 3072 / 2048 / 132) * 8 * 10_000 / (4 * 1.98e9) * 1e6
        self.assertEqual(lines[1].split()[:7], ["gelu", "32768", "x", "3072", "12", f"{us:.1f}", "134.2"])
        self.assertTrue(lines[1].endswith("  instructions"))
        self.assertTrue(all(line.endswith("  memory") for line in lines[2:-1]))


if __name__ == "__main__":
    unittest.main()
