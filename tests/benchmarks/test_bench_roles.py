"""The table of role mining beside the published minima."""

from benchmarks import bench_roles


def test_the_table_has_the_published_minimum_beside_the_roles_and_names_missing_files(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "fire2.txt").write_text("".join(f"{user} {user}\n" for user in range(10)))
    monkeypatch.setattr(bench_roles, "DATA", tmp_path)
    monkeypatch.setattr(bench_roles, "PLANTED", ())
    assert bench_roles.main() == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1][:2] == ["data", "set"] and len(lines) == 2 + len(bench_roles.MINIMA)
    found = next(line for line in lines if line[0] == "ok")
    assert found[1:7] == ["firewall2", "10", "10", "10", "10", "10"]
    missing = next(line for line in lines if line[0] == "americas_large")
    assert missing[5] == "398" and missing[-4:] == ["or", "al.txt", "in", "ROLE_MINING_DATA"]
