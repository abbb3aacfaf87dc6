"""The action plan: plan the starts of jobs from the expected ends of others."""
