"""Notes on the inputs: what they look like, and what is done to source code."""

from tokenmill.preparation.plan import Plan
from tokenmill.text.inputs.file_kind import find_code, lookalikes


def notes_on_inputs(plan: Plan) -> list[str]:
    """Sentences to read before hours of work."""
    notes = lookalikes(list(plan.sources), plan.settings.text_field)
    does = []
    if plan.settings.clean:
        does.append("cleaning shortens indentation to one space (clean=False keeps it)")
    if plan.settings.dedup == "lines":
        does.append(
            "lines that were there before are dropped, from any file "
            '(dedup="documents" or dedup="none" keeps them)'
        )
    code = find_code(plan.sources) if does else []
    if 2 * sum(source.size for source in code) > plan.bytes_in:
        notes.append(f"most of the input is source code, such as {code[0].name}: {'; '.join(does)}")
    return notes
