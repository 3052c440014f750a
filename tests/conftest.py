"""What every test may rely on."""

import signal

# A shell starts background jobs with SIGINT ignored, and Python then raises no KeyboardInterrupt: a test that sends the
# signal would wait forever, and so would the programs that it starts.
if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
    signal.signal(signal.SIGINT, signal.default_int_handler)
