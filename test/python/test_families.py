"""Every architecture against PyTorch: loss, gradients, ten steps."""

import os
import unittest

import families
import heddle.torch
import parity


class Families(unittest.TestCase):
    def _check(self, name: str, plan: str, mask: bool = False) -> None:
        model, batch = families.make(name, mask)
        with self.subTest(name, plan=plan, mask=mask):
            print(name, plan, parity.check(model, batch, plan=parity.PLANS[plan]))

    def test_one_device(self) -> None:
        for name in families.FAMILIES:
            self._check(name, "one")

    def test_attention_mask(self) -> None:
        for name in families.MASKED:
            self._check(name, "one", mask=True)

    def test_rows_are_bound_later(self) -> None:
        """One export for any number of rows gives the text of an export for this
        number. Only the numbers of values may differ."""
        for name in families.FAMILIES:
            model, batch = families.make(name)
            traced = heddle.torch.Traced(model, batch)
            for rows in (families.ROWS, 2, 3):
                part = {key: tensor[:rows] for key, tensor in batch.items()}
                text = heddle.torch.export(model, part).text
                with self.subTest(name, rows=rows):
                    bound = traced.bind(rows).text
                    self.assertEqual(parity.renumbered(bound), parity.renumbered(text))
            with self.subTest(name):
                more = traced.bind(2 * families.ROWS).text
                self.assertIn(f"tensor<{2 * families.ROWS}x", more)

    def test_plans(self) -> None:
        for plan in parity.PLANS:
            for name in families.FAMILIES if plan != "one" else ():
                self._check(name, plan)

    def test_random_configurations(self) -> None:
        """Each model trains under one plan, or under all with HEDDLE_LONG_TESTS."""
        is_long = "HEDDLE_LONG_TESTS" in os.environ
        plans = list(parity.PLANS)
        for i, name in enumerate(families.FAMILIES):
            for mask in (False, True)[: 1 + (name in families.MASKED)]:
                some = plans if is_long else [plans[(2 * i + mask) % len(plans)]]
                for seed, plan in enumerate(some):
                    seed = 2 * seed + mask
                    sizes = families.random_sizes(name, seed)
                    model, batch = families.make(name, mask, **sizes)
                    with self.subTest(name, plan=plan, mask=mask, sizes=sizes):
                        done = parity.check(model, batch, plan=parity.PLANS[plan])
                        print(name, plan, mask, seed, done)


if __name__ == "__main__":
    unittest.main()
