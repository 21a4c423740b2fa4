"""The gateway: an endpoint on loopback that other agents use as their base URL.

It applies a policy to what goes upstream, and records each session into a journal. HTTP and the formats of providers are the work
of litellm's proxy, which runs in a process of its own with packages of its own (`environment`, `process`). A hook in the proxy
(`proxy_hook`) asks this process about each request over a Unix socket (`channel`), where sessions are told apart and recorded
(`recorder`).
"""
