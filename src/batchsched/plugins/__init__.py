"""The plugins that come with batchsched: a module or a folder each."""
