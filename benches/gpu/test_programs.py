"""Tests of what the experiments of agenda.json are made of: the file itself, the ledger, and what programs compute without a GPU.

    python3 benches/gpu/test_programs.py
"""

import array
import os
import tempfile
import unittest

import ab
import account
import experiments
import ledger
import limited
import samples
import tokens

HERE = os.path.dirname(os.path.abspath(__file__))


class OfTheRepository(unittest.TestCase):
    def test_every_experiment_can_be_run_or_says_what_it_needs(self):
        found = experiments.read(os.path.join(HERE, "agenda.json"))
        places = experiments.Places("/programs", "/programs/old", {tool: tool for tool in experiments.TOOLS}, False)
        for each in found:
            self.assertNotEqual(bool(each["commands"]), bool(each.get("needs")), each["id"])
            self.assertTrue(each["rule"] and each["figure"], each["id"])
            self.assertTrue(experiments.contents(each, places))
            for command in places.expanded(each, "/out", "/work", 60):
                scripts = [argument for argument in command if argument.startswith(HERE)]
                self.assertEqual([path for path in scripts if not os.path.exists(path)], [], each["id"])
        self.assertEqual(found[0]["id"], "E0")

    def test_the_ledger_of_the_repository_is_whole(self):
        lines, complaints = ledger.read(os.path.join(HERE, "../../docs/gpu/ledger.jsonl"))
        self.assertEqual(complaints, [])
        self.assertGreaterEqual(len(lines), 23)
        self.assertFalse([line["id"] for line in lines if line.get("replayed")])


class Programs(unittest.TestCase):
    def test_figures_are_put_together(self):
        text = 'figures: {"a": 1}\nother\nfigure: b\nfigures: {"c": 2}\nfigures: {'
        self.assertEqual(limited.figures(text), {"a": 1, "c": 2, "text": ["b", "figures: {"]})
        self.assertEqual(limited.figures("nothing"), {})

    def test_the_last_whole_step_is_counted(self):
        step = [("embedding", 1.0), ("gelu", 2.0), ("adamw", 3.0), ("adamw", 3.0)]
        after = [("embedding", 1.0), ("gelu", 2.0)]
        self.assertEqual(account.last_step([("from_f32", 9.0)] + step + step + after), step)
        self.assertEqual(account.last_step(after), [])

    def test_an_account_adds_up(self):
        times = {"embedding_backward": [2e6], "cublasLtMatmul": [1e6, 3e6], "attention_mma_64": [5e5], "gelu": [5e5]}
        expected = {"kernels_ms": 7.0, "num_launches": 5, "products_ms": 4.0, "attention_ms": 0.5, "embedding_backward_ms": 2.0}
        self.assertEqual(account.figures_of(times), expected)

    def test_samples_come_in_the_order_of_pipezero(self):
        # SplitMix64 of seed 0, as in engine/run/src/data/sampler.rs.
        golden = 0x9E3779B97F4A7C15
        expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
        self.assertEqual([samples.mix(golden * number & samples.MASK) for number in range(3)], expected)
        for num_samples in (1, 2, 5, 64, 100):
            order = samples.Permutation(num_samples, 7)
            for epoch in range(2):
                found = [order.sample(epoch * num_samples + place) for place in range(num_samples)]
                self.assertEqual(sorted(found), list(range(num_samples)))

    def test_windows_are_read_from_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            run = {"model": {"seq_length": 4}, "train_batch_size": 3, "data": {"tokens": "t.bin", "token_type": "u32"}}
            with open(os.path.join(folder, "t.bin"), "wb") as file:
                array.array("I", range(70_000, 70_041)).tofile(file)
            read = samples.Samples(run, folder)
            found = [read.of_step(step).tolist() for step in (1, 2, 3)]
        begins = [each[place] for each in found for place in (0, 5, 10)]
        self.assertEqual(len(set(begins)), 9)
        for each in found:
            for place in (0, 5, 10):
                begin = each[place]
                self.assertEqual((begin - 70_000) % 4, 0)
                self.assertEqual(each[place : place + 5], list(range(begin, begin + 5)))

    def test_random_tokens_are_of_the_whole_vocabulary(self):
        self.assertEqual(tokens.drawn(50304, 100, 1), tokens.drawn(50304, 100, 1))
        self.assertNotEqual(tokens.drawn(50304, 100, 1), tokens.drawn(50304, 100, 2))
        self.assertEqual(set(tokens.drawn(7, 1000, 1)), set(range(7)))
        self.assertEqual((tokens.drawn(1 << 16, 1, 1).itemsize, tokens.drawn(1 << 17, 1, 1).itemsize), (2, 4))

    def test_a_change_is_kept_by_its_rule(self):
        rounds = {"old": [81.0, 81.4], "new": [79.0, 79.2]}
        self.assertTrue(ab.verdict(rounds, None)["is_kept"])
        self.assertTrue(ab.verdict(rounds, 3.0)["is_kept"])
        self.assertFalse(ab.verdict(rounds, 6.0)["is_kept"])
        self.assertFalse(ab.verdict(rounds | {"new": [79.0, 82.0]}, None)["is_kept"])


if __name__ == "__main__":
    unittest.main()
