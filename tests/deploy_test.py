#!/usr/bin/env python3
"""What scripts/deploy says, held against the program itself and against linters that are there.

    STARLING=build/dev/peer/starling tests/deploy_test.py [Case.test_name]

Nothing is deployed: units are read by systemd's own checker, the batch script runs between
stand-ins for Slurm's commands, manifests are read as YAML. What cannot be checked says so.
"""

import base64
import functools
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

STARLING = Path(os.environ.get("STARLING", "build/dev/peer/starling")).resolve()
DEPLOY = Path(__file__).resolve().parent.parent / "scripts" / "deploy"
NO_SHARDS = r"data\.train: there is no "  # the configuration is right: it comes to the data
EXPOSURE_MAX = 20  # tenths of systemd's scale from 0 to 10


def starling(*arguments):
    return subprocess.run([STARLING, *arguments], capture_output=True, text=True)


@functools.cache
def help_of(*command):
    return starling(*command, "--help").stdout


def words_of_table(text, title):
    table = text.split(f"\n{title}:\n")[-1] if f"\n{title}:\n" in text else ""
    return re.findall(r"^  ([a-z]+) ", table, re.MULTILINE)


COMMANDS = words_of_table(help_of(), "Subcommands")
KEYS = set()
for line in starling("config").stdout.split("\n"):
    if match := re.match(r"\[(\w+)\]", line):
        section = match.group(1)
    elif match := re.match(r"(\w+) =", line):
        KEYS.add(f"{section}.{match.group(1)}")


def calls_in(text):
    """(command, the rest of its line) of each call; a line goes on behind a backslash."""
    text = re.sub(r"\\\n\s*", " ", text)
    program = r"(?:\$STARLING|build/release/peer/starling|starling)\"?"
    for match in re.finditer(rf"{program} ({'|'.join(COMMANDS)})\b([^\n`|#]*)", text):
        yield match.groups()


def run_config(folder, *overrides):
    sets = [word for override in overrides for word in ("--set", override)]
    command = [STARLING, "peer", folder / "peer.toml", *sets]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


class Documented(unittest.TestCase):
    def test_every_call_has_a_command_options_and_keys_that_exist(self):
        seen = 0
        for path in sorted(p for p in DEPLOY.rglob("*") if p.is_file()):
            for command, rest in calls_in(path.read_text()):
                seen += 1
                known = help_of(command)
                for option in re.findall(r"(?<![\w-])--[a-z-]+", rest):
                    with self.subTest(file=path.name, command=command, option=option):
                        self.assertRegex(known, rf"{option}\b")
            for key in re.findall(r"--set[ \n\"-]+([a-z]+\.[a-z_]+)=", path.read_text()):
                with self.subTest(file=path.name, key=key):
                    self.assertIn(key, KEYS)
        self.assertGreater(seen, 10)

    def test_every_script_is_liked_by_shellcheck(self):
        if not shutil.which("shellcheck"):
            self.skipTest("shellcheck is not installed")
        scripts = [p for p in DEPLOY.rglob("*") if p.is_file() and p.read_bytes()[:2] == b"#!"]
        self.assertGreater(len(scripts), 3)
        checked = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True)
        self.assertEqual(checked.stdout, "")


class Unit(unittest.TestCase):
    def setUp(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not installed")
        self.folder = tempfile.TemporaryDirectory(prefix="starling-unit-")
        text = (DEPLOY / "systemd" / "starling.service").read_text()
        self.unit = Path(self.folder.name) / "starling.service"
        self.unit.write_text(text.replace("ExecStart=starling ", f"ExecStart={STARLING} "))
        self.assertNotEqual(text, self.unit.read_text())

    def tearDown(self):
        self.folder.cleanup()

    def analyze(self, *arguments):
        command = ["systemd-analyze", *arguments, self.unit]
        return subprocess.run(command, capture_output=True, text=True)

    def test_systemd_has_nothing_against_it(self):
        verified = self.analyze("verify", "--man=no")
        about = [line for line in verified.stderr.split("\n") if "starling" in line]
        self.assertEqual((about, verified.returncode), ([], 0), verified.stderr)

    def test_it_is_confined(self):
        judged = self.analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}")
        if "offline" in judged.stderr:
            self.skipTest(f"systemd is too old: {judged.stderr.strip()}")
        self.assertEqual(judged.returncode, 0, judged.stdout[-200:])


SLURM = {
    "scontrol": """
if [[ $1 == show ]]; then printf '%s\\n' ${3//,/ }; else echo "$*" >>"$CALLS"; fi
""",
    # A task for each node, until all have ended; SIGTERM would end it at once.
    "srun": """
while [[ $1 == --* ]]; do shift; done
tasks=() && for node in ${SLURM_JOB_NODELIST//,/ }; do
  SLURM_PROCID=${#tasks[@]} SLURMD_NODENAME=$node "$@" &
  tasks+=($!)
done
echo "${tasks[@]}" >"$CALLS.tasks"
status=0 && for task in "${tasks[@]}"; do wait "$task" || status=$?; done
exit "$status"
""",
    "scancel": """
echo "$*" >>"$CALLS"
xargs kill -TERM <"$CALLS.tasks"
""",
    # A peer that writes what it was told and, if LONG is set, stays until SIGTERM, which the batch
    # script gets when all peers are ready for it.
    "starling": """
[[ $1 == peer ]] || exec "$REAL" "$@"
printf '%s\\n' "$@" >"$CALLS.peer-$SLURM_PROCID"
[[ -n $LONG ]] || exit "$STATUS"
trap 'echo saved >>"$CALLS"; exit 0' TERM
echo >>"$CALLS.ready"
ready() { [[ $(wc -l <"$CALLS.ready") == 4 && -s $CALLS.tasks ]]; }
for ((i = 0; i < 2000; ++i)); do
  if [[ $SLURM_PROCID == 0 ]] && ready && mkdir "$CALLS.told" 2>/dev/null; then
    kill -TERM "$BATCH"
  fi
  sleep 0.05
done
""",
}


class Slurm(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="starling-slurm-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        for name, text in SLURM.items():
            (self.folder / name).write_text("#!/usr/bin/env bash\n" + text)
            (self.folder / name).chmod(0o755)
        (self.folder / "peer.toml").write_text('[data]\ntrain = ["nowhere"]\nvalidation = ["x"]\n')

    def submit(self, long="", status=0):
        environment = dict(
            os.environ, PATH=f"{self.folder}:{os.environ['PATH']}", REAL=str(STARLING), LONG=long,
            STARLING="starling", CALLS=str(self.folder / "calls"), STATUS=str(status),
            SLURM_JOB_ID="7", SLURM_JOB_NODELIST="n1,n2,n3,n4", SLURM_CPUS_PER_TASK="2")
        script = f'export BATCH=$$; exec bash "{DEPLOY}/slurm/starling.sbatch" peer.toml'
        return subprocess.run(["bash", "-c", script], cwd=self.folder, env=environment,
                              capture_output=True, text=True, timeout=120)

    def calls(self):
        path = self.folder / "calls"
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def test_each_node_has_a_peer_with_its_key_and_the_first_three_as_seeds(self):
        job = self.submit()
        self.assertEqual((job.returncode, job.stderr), (0, ""))
        allowed = (self.folder / "starling-trust" / "allow.txt").read_text().split()
        self.assertEqual(len(set(allowed)), 4)
        seeds = ", ".join(f'"{allowed[i]}@n{i + 1}:7700"' for i in range(3))
        for i in range(4):
            told = (self.folder / f"calls.peer-{i}").read_text().split("\n")[:-1]
            sets = {told[at + 1] for at, word in enumerate(told) if word == "--set"}
            self.assertEqual(told[:2], ["peer", "peer.toml"])
            self.assertIn(f"run.peer_name=peer-{i}", sets)
            self.assertIn(f"trust.key=starling-trust/peer-{i}", sets)
            self.assertIn(f"gossip.advertise=n{i + 1}:7700", sets)
            self.assertIn(f"gossip.seeds=[{seeds}]", sets)
            self.assertRegex(run_config(self.folder, *sets).stderr, NO_SHARDS)
        self.assertEqual(self.calls(), [])  # done, and so not queued again

    def test_before_the_time_limit_peers_save_and_the_job_is_queued_again(self):
        job = self.submit(long="yes")
        self.assertEqual((job.returncode, job.stderr), (0, ""))
        self.assertEqual(self.calls()[0], "--signal=TERM 7")
        self.assertEqual(self.calls()[-1], "requeue 7")
        self.assertEqual(self.calls().count("saved"), 4)

    def test_a_peer_that_fails_is_told_and_the_job_is_not_queued_again(self):
        self.assertEqual(self.submit(status=1).returncode, 1)
        self.assertEqual(self.calls(), [])

    def test_keys_stay_when_the_job_comes_again(self):
        self.submit()
        first = (self.folder / "starling-trust" / "allow.txt").read_text()
        self.submit()
        self.assertEqual((self.folder / "starling-trust" / "allow.txt").read_text(), first)


def load_yaml(test, text):
    try:
        import yaml
    except ImportError:
        test.skipTest("this Python has no module yaml")
    return {f"{d['kind']} {d['metadata']['name']}": d for d in yaml.safe_load_all(text)}


class Kubernetes(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="starling-kubernetes-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.whole = load_yaml(self, (DEPLOY / "kubernetes" / "starling.yaml").read_text())
        self.pod = self.whole["StatefulSet starling"]["spec"]["template"]["spec"]

    def make_keys(self, peers):
        command = [DEPLOY / "kubernetes" / "keys", str(peers)]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True,
                              env=dict(os.environ, STARLING=str(STARLING)))

    def test_keys_are_made_once_and_grow_with_the_swarm(self):
        first = load_yaml(self, self.make_keys(2).stdout)["Secret starling-keys"]["data"]
        more = load_yaml(self, self.make_keys(5).stdout)
        keys = more["Secret starling-keys"]["data"]
        self.assertEqual({name: keys[name] for name in first}, first)
        self.assertEqual(sorted(keys), [f"starling-{i}" for i in range(5)])
        members = more["ConfigMap starling-members"]["data"]
        allowed = members["allow.txt"].split()
        self.assertEqual(len(allowed), 5)
        for i, public in enumerate(allowed):
            path = self.folder / "again"
            path.write_bytes(base64.b64decode(keys[f"starling-{i}"]))
            path.chmod(0o600)
            self.assertEqual(starling("keygen", path).stdout.split("\n")[0], public)
        self.assertNotEqual(self.make_keys("many").returncode, 0)

    def test_the_pod_s_command_line_and_configuration_are_what_starling_takes(self):
        members = load_yaml(self, self.make_keys(4).stdout)["ConfigMap starling-members"]["data"]
        config = self.whole["ConfigMap starling-config"]["data"]["peer.toml"]
        config = config.replace("/var/lib/starling/runs", str(self.folder / "runs"))
        config = config.replace("/run/starling/key", str(self.folder / "keys.d" / "starling-1"))
        (self.folder / "peer.toml").write_text(config)
        arguments = self.pod["containers"][0]["args"]
        values = {"$(POD_NAME)": "starling-1", "$(SEEDS)": members["seeds"]}
        for name, value in values.items():
            arguments = [word.replace(name, value) for word in arguments]
        self.assertEqual(arguments[0], "peer")
        sets = [arguments[at + 1] for at, word in enumerate(arguments) if word == "--set"]
        self.assertRegex(run_config(self.folder, *sets).stderr, NO_SHARDS)

    def test_names_ports_and_volumes_fit_each_other(self):
        service = self.whole["Service starling"]["spec"]
        peer = self.pod["containers"][0]
        labels = self.whole["StatefulSet starling"]["spec"]["template"]["metadata"]["labels"]
        self.assertEqual(service["selector"], labels)
        self.assertEqual({p["name"]: p["port"] for p in service["ports"]},
                         {p["name"]: p["containerPort"] for p in peer["ports"]})
        claims = self.whole["StatefulSet starling"]["spec"]["volumeClaimTemplates"]
        there = {v["name"] for v in self.pod["volumes"]} | {c["metadata"]["name"] for c in claims}
        for container in [peer, *self.pod["initContainers"]]:
            self.assertLessEqual({m["name"] for m in container["volumeMounts"]}, there)
            self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(peer[probe]["httpGet"], {"path": "/healthz", "port": "status"})


if __name__ == "__main__":
    unittest.main()
