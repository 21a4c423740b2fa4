"""The tools that an agent works with, each over one sandbox."""

from harness.tools.standard import standard_tools as standard_tools
