"""StoBatch (Phan et al., ICML 2020): private training with adversarial examples, and certified prediction.

| module | holds |
|---|---|
| `budget` | sensitivities, noise, budgets and certified sizes, as printed and as they hold |
| `reconstruction` | what the released values of the printed version give away |
| `noise`, `local` | what is noisy before training, as values: as printed; fresh for each example |
| `model`, `objective`, `training` | the network, its two objectives, and Algorithm 1 with its ensemble of attacks |
| `distributed` | Algorithm 4 on real processes: a server and local trainers with two batches each |
| `inference` | verified inference: labels and certified sizes, by the printed sum and the sound harmonic rule |
| `central` | the other sound version: DP-SGD on the adversarial objective, certified by smoothing |
| `baselines` | what the paper compares with: PixelDP, SecureSGD-AGM; and which are left out, and why |

As printed, one noise vector is added to all examples. Then the released values determine every image, whatever the
budget says: `reconstruction.from_background`. With fresh noise for each example the mechanism is private, at the price
that `budget.sound_epsilon` states.
"""
