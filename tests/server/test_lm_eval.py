"""lm_eval's local-completions on a small task of our own: the scores it finds are those that met itself computes.

It runs in an environment of its own, since it brings much: `python -m venv DIR && DIR/bin/pip install lm_eval
transformers tenacity`, then LM_EVAL=DIR/bin/lm_eval.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.server.harness import Server

LM_EVAL = os.environ.get("LM_EVAL") or shutil.which("lm_eval")
QUESTIONS = [
    {"text": "the cat", "choices": [" on the mat", " at the hat", " in"], "answer": 0},
    {"text": "on the", "choices": [" mat", " that", " it is"], "answer": 1},
    {"text": "that is", "choices": [" the end", " a"], "answer": 1},
]
TASK = """\
task: tiny_choice
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
output_type: multiple_choice
test_split: test
doc_to_text: "{{{{text}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: answer
target_delimiter: ""
metric_list:
  - metric: acc
"""


def scored(server: Server, text: str, choice: str) -> tuple[float, bool]:
    """The log-probability of a choice behind a text, and whether it is what the model would say at temperature 0."""
    n = len(server.post("/tokenize", {"prompt": text}).json()["tokens"])
    whole = server.post("/tokenize", {"prompt": text + choice}).json()["tokens"]
    asked = {"model": "model", "prompt": whole, "max_tokens": 0, "echo": True, "logprobs": 1, "temperature": 0}
    found = server.post("/v1/completions", asked).json()["choices"][0]["logprobs"]
    own, top = found["token_logprobs"][n:], found["top_logprobs"][n:]
    return sum(own), all(logprob == max(best.values()) for logprob, best in zip(own, top, strict=True))


@pytest.mark.slow
@pytest.mark.skipif(LM_EVAL is None, reason="lm_eval is not installed; see the head of this file")
def test_a_task_is_scored_as_met_scores_it(server: Server, home: Path, tmp_path: Path) -> None:
    data = tmp_path / "questions.jsonl"
    data.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS), encoding="utf-8")
    (tmp_path / "tiny_choice.yaml").write_text(TASK.format(data=data), encoding="utf-8")
    address = f"http://127.0.0.1:{server.port}/v1/completions"
    model = f"model=model,base_url={address},tokenizer={home / 'model'},tokenizer_backend=huggingface,num_concurrent=4"
    assert LM_EVAL is not None
    ran = subprocess.run(
        [
            LM_EVAL, "--model", "local-completions", "--model_args", model, "--tasks", "tiny_choice",
            "--include_path", str(tmp_path), "--output_path", str(tmp_path / "out"), "--log_samples",
        ],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    (samples,) = (tmp_path / "out").rglob("samples_tiny_choice_*.jsonl")
    lines = [json.loads(line) for line in samples.read_text("utf-8").splitlines()]
    found = {line["doc"]["text"]: line["filtered_resps"] for line in lines}
    for question in QUESTIONS:
        text = str(question["text"])
        for choice, (logprob, greedy) in zip(question["choices"], found[text], strict=True):  # type: ignore[call-overload]
            own, is_greedy = scored(server, text, choice)
            assert float(logprob) == pytest.approx(own, rel=1e-6)
            assert (greedy in (True, "True")) == is_greedy
