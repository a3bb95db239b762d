"""An unmodified cqlsh against one server, and the CSV that its COPY writes."""

import re
import subprocess

# How cqlsh writes a quote inside quotes.
ESCAPE = {"doublequote": False, "escapechar": "\\"}


class Shell:
    """A cqlsh against one server."""

    def __init__(self, program, host, port, folder=None):
        self.command = [program, host, port, "--request-timeout=60", "--no-color"]
        # Where COPY leaves the rows that it could not import.
        self.folder = folder

    def run(self, statements):
        """What one cqlsh prints for some statements; it must not fail or print an error."""
        result = self._result(statements)
        # The driver warns of times that Python does not have.
        complaints = [line for line in result.stderr.splitlines() if line.strip() and "DateOverFlow" not in line]
        assert result.returncode == 0 and not complaints, f"{statements}\n{result.stdout}{result.stderr}"
        # cqlsh warns on its output of a server that is not exactly the version it was built for.
        return re.sub(r"^WARNING: cqlsh was built against.*\n", "", result.stdout)

    def refuses(self, statements):
        """What cqlsh prints for statements that must fail."""
        result = self._result(statements)
        assert result.returncode != 0, f"{statements} was accepted"
        return result.stdout + result.stderr

    def _result(self, statements):
        return subprocess.run(
            self.command, input=statements, text=True, capture_output=True, timeout=300, cwd=self.folder)
