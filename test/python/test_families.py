"""Every architecture against PyTorch: loss, gradients, ten steps."""

import unittest

import families
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
        for name in families.TEXT:
            self._check(name, "one", mask=True)

    def test_plans(self) -> None:
        for plan in parity.PLANS:
            for name in families.FAMILIES if plan != "one" else ():
                self._check(name, plan)


if __name__ == "__main__":
    unittest.main()
