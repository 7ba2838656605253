"""Which neurons clients activate: what is counted, and the pictures that are drawn."""

import pytest

from tff_partial.results import neurons, pictures, text_files


def rows(*clients):
    """A layer of six neurons; a client is (name, the neurons that it activates most)."""
    return [
        {"client": name, "layer": 1, "name": "fc1", "neuron": i, "activation": float(i in best)}
        for name, best in clients
        for i in range(1, 7)
    ]


def test_neurons_in_common_are_counted_by_hand():
    found = rows(("client 1", {1, 2}), ("client 2", {2, 3}), ("client 3", {5, 6}))
    found += rows((neurons.EVERYBODY, {1, 2}))
    assert neurons.in_common(found) == {"fc1": [0.5, 0.0, 0.0]}
    assert neurons.table(found)[1] == ["fc1", "6", "0", "17", "50"]


def test_pictures_show_two_clients_all_pairs_and_every_example():
    found = rows(("client 1", {1}), ("client 2", {2}), ("client 3", {3}), (neurons.EVERYBODY, {4}))
    found += [{**row, "name": "out", "layer": 2} for row in found]
    examples = [{"client": "client 1", "label": 0, "x": 0.0, "y": 1.0}] * 5
    drawn = neurons.draw(found, examples)
    assert list(drawn) == ["figure2", "figure6", "figure7"]
    assert [panel.title for panel in drawn["figure2"].panels] == ["fc1", "out", "all clients' data"]
    assert list(drawn["figure2"].panels[0].lines) == ["client 1", "client 2"]
    pairs = [panel.title for panel in drawn["figure7"].panels]
    assert pairs == ["client 1 and 2", "client 1 and 3", "client 2 and 3"]
    assert pictures.svg(drawn["figure6"]).count("<circle") == 5


def test_files_are_read_as_they_were_written(tmp_path):
    found = rows(("client 1", {1}))
    path = str(tmp_path / neurons.ACTIVATIONS)
    assert neurons.read(path) == []
    text_files.write_csv(path, neurons.COLUMNS, found)
    assert neurons.read(path) == found
    with pytest.raises(text_files.ResultsError, match="must be of activations"):
        neurons.read(path, is_example=True)
