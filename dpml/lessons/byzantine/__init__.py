"""Workers that lie to a server that listens: which rule survives whom, what private noise does to all of them, and
what the server learns.
"""
