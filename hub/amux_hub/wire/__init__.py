"""The wire: frames, strict JSON, accepting connections, and Varlink over asyncvarlink."""
