"""The requests that run, so that all of them can be ended at once."""

from circuit_exec.engine.interface import Ticket


class Tickets:
    """On the event loop, and in signal handlers between its steps."""

    def __init__(self) -> None:
        self._tickets: dict[int, Ticket] = {}

    def add(self, ticket: Ticket) -> None:
        """A request was taken."""
        self._tickets[id(ticket)] = ticket

    def remove(self, ticket: Ticket) -> None:
        """It is over."""
        self._tickets.pop(id(ticket), None)

    def cancel_all(self) -> None:
        """Ends every request; their answers say so."""
        for ticket in list(self._tickets.values()):
            ticket.cancel()
