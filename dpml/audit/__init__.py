"""Audits: what samples of a mechanism's output say against a claimed epsilon.

| module | question |
|---|---|
| `dpml.audit.samples` | how large must epsilon be at least, given what an attack achieved? |
"""
