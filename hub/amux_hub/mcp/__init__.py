"""MCP served by the Hub: the preamble of `amux mcp`, then sessions of the official SDK.

Import `amux_hub.mcp.server` only where MCP is served: it loads the SDK, which takes a second and 60 MiB.
"""
