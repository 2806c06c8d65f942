"""What exporters to other formats share: entries as ops that these formats have."""
