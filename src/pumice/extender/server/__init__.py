"""Any Plugin class as an HTTP extender: an ASGI application, and what it is made of."""

from pumice.extender.server.app import app as app
from pumice.extender.server.options import Options as Options
