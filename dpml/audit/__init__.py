"""Audits: what samples of a mechanism's output say against a claimed epsilon.

| module | question |
|---|---|
| `dpml.audit.samples` | how large must epsilon be at least, given what an attack achieved? |
| `dpml.audit.gaussian_scores` | the same for a mechanism that is known to be a Gaussian one: much sharper |
| `dpml.audit.known_losses` | the same where the privacy loss of every output is known |
| `dpml.audit.one_run` | the same from a single run, into which many coins were put |
"""
