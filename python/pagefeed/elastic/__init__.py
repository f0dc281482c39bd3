"""Elastic fleets: steps of one size for ranks that come and go.

- :class:`Fleet`: the sizes of steps, and which rows of a step each rank gets.
- :class:`FleetRoute`: the positions of a rank's steps.
- :class:`FleetSession`: gives any step to any rank at any time.
"""

from pagefeed.elastic.fleet import Fleet, FleetRoute
from pagefeed.elastic.fleet_session import FleetSession

__all__ = ["Fleet", "FleetRoute", "FleetSession"]
