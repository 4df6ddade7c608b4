"""Keep one language: a function for `tokenmill prepare --map map_language:english`.

Needs `pip install py3langid`. Its answer for a text depends on the text alone, as a function for
`--map` must: the model is loaded once per process, and never changes.
"""

import functools

from tokenmill.text.filters.mapped import Documents, Mapped

SURE = 0.9
ENOUGH = 2000  # characters tell the language


@functools.cache
def identifier():
    """The model of py3langid, with probabilities that add up to one."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_pickled_model(MODEL_FILE, norm_probs=True)


def english(documents: Documents) -> Mapped:
    """Drop documents that are not English, or not surely; `show --removed` prints how sure."""
    found = [identifier().classify(text[:ENOUGH]) for text in documents.texts]
    texts, reasons = [], []
    for text, (language, sureness) in zip(documents.texts, found, strict=True):
        is_english = language == "en" and sureness >= SURE
        texts.append(text if is_english else None)
        reasons.append(None if is_english else f"language {language}")
    return Mapped(texts, reasons, [float(sureness) for _, sureness in found])
