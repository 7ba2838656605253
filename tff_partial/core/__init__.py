"""What every algorithm needs: the model as blocks, local training, aggregation, evaluation."""
