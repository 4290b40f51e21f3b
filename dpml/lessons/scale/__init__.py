"""What gets cheaper and what dearer when records, batch, model, machines and runs grow, and which promises of papers
stood when they were run again.
"""
