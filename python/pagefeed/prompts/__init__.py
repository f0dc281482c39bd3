"""Prompts for post-training: taken ahead, finished in any order, resumed exactly.

A ticket is a position in the endless order of a dataset. What a ticket is follows from
data and seed, and which tickets are out is the state of one small object. ``queue`` has
that object, ``ticket`` what it hands out. ``places`` finds the prompt at each position
and reads rows, ``shares`` says which dataset is next, ``curriculum`` which prompts are
taken by their scores, and ``packed`` writes arrays into states.
"""

from pagefeed.prompts.curriculum import Curriculum
from pagefeed.prompts.queue import PromptQueue
from pagefeed.prompts.ticket import Ticket

__all__ = ["Curriculum", "PromptQueue", "Ticket"]
