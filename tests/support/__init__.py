"""What the tests share: small clusters, opened sessions, histories, golden cases."""
