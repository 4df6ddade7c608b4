"""Examples that hypothesis makes up have no deadline: how long one takes depends on the machine."""

from hypothesis import settings

settings.register_profile("tokenmill", deadline=None)
settings.load_profile("tokenmill")
