# bash reproduction/tests/h200.sh PART: run jobs of the grid on the H200 machine and put new records into $OUT/new.jsonl
set -u
quant() { python3 -c 'import sys; from quant_reproduction.cli import main; sys.exit(main())' "$@"; }
R=reproduction/results
[ -d /tmp/before ] || cp -r $R /tmp/before
collect() {
  python3 - <<'P'
import os, pathlib
old = {line for f in pathlib.Path("/tmp/before").glob("*.jsonl") for line in f.open()}
new = [line for f in sorted(pathlib.Path("reproduction/results").glob("*.jsonl")) for line in f.open() if line not in old]
pathlib.Path(os.environ["OUT"], "new.jsonl").write_text("".join(new))
print("new records:", len(new), flush=True)
P
  tail -n 15 $R/logs/*.log > $OUT/failed.txt 2>/dev/null
}
M=${2:-7.5}
if [ "$1" = 1 ]; then
  quant reproduce training-raw --device cpu --processes 3 --minutes $M > $OUT/raw.txt 2>&1 & A=$!
  quant reproduce randgraph --device cpu --processes 6 --minutes $M > $OUT/randgraph.txt 2>&1 & B=$!
  for item in released-graphs released-3d released-2d released-five; do
    s=$SECONDS; quant reproduce $item --minutes $M 2>&1 | tail -5 | cut -c1-300; echo "$item $((SECONDS - s)) s, rc $?"
    collect
  done
  wait $A $B
fi
if [ "$1" = 2 ]; then
  quant reproduce rotation rotation-trained pointset --minutes $M 2>&1 | tail -5 | cut -c1-300
  quant reproduce training-raw --device cpu --processes 3 --minutes $M > $OUT/raw.txt 2>&1
fi
collect
