"""Connect a host to an application, as `python3 mcp_app.py NAME` does.

The configurations of many hosts name this file.
"""

from mcp_app import main

if __name__ == "__main__":
    main()
