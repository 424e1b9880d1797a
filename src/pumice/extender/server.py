"""Any Plugin class as an HTTP extender: the ASGI application and its options, under the names that users import."""

from pumice.extender.answering.app import app as app
from pumice.extender.answering.intake import Options as Options
