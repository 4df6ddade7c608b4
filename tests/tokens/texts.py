"""Short texts in which characters of every kind meet, for hypothesis."""

from hypothesis import strategies as st

# White space of every kind, letters of every kind, marks, numbers, signs, all around spaces.
ALPHABET = (
    " \t\n\r\x0b\x0c\x1c\x1f\x85\u00a0\u1680\u2000\u200b\u2028\u202f\u205f\u3000\ufeff"
    "aZsStTmMdDlLvVeErR''\u2019019/.,-_(<|\\"
    "\u00df\u0130\u01c5\u02b0\u0301\u0308\u00bd\u0661\u2167\u216b\u017f\u212a\u2581"
    "\u5000\u6c34\u8fff\u4e2d\u9000\u3042\u30fb\u3099\uff0c\uff0c\u3001\u3002\uac00\U00020000\U0001f33e\U0001f3fd"
)
TEXTS = st.one_of(
    st.text(st.sampled_from(ALPHABET), max_size=24),
    st.text(st.one_of(st.sampled_from(" \n\uff0c"), st.characters(exclude_categories=["Cs"]))),
)
