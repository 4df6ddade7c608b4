"""Each fault of the hub ends in correct files or a typed error, never in a bad file with a name."""

import time
import traceback

import pytest
from hub.conftest import REPO, TOKEN, llmc_shard
from hub.fake_hub import SIGNATURE
from hub.test_download import FIRST_THREE, get, names, partials, visible
from system_faults import small_disk

from tokenmill.errors import DownloadError
from tokenmill.hub import Retry

SHARD = FIRST_THREE[0]
FOREVER = 10**9

# Each of these passes when the server is honest at the next request.
PASSING = [
    ("cut", {}),
    ("cut", {"at": 0}),
    ("short", {}),
    ("long", {}),
    ("flip", {}),
    ("flip", {"at": 5}),
    ("refuse", {}),
    ("status", {"status": 429, "headers": {"Retry-After": "0"}}),
    ("status", {"status": 503, "headers": {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}}),
    ("status", {"status": 503}),
    ("status", {"status": 500}),
    ("status", {"status": 408}),
    ("status", {"status": 403}),  # of the store: a signed address that expired
]


@pytest.mark.parametrize(("kind", "settings"), PASSING)
def test_a_fault_that_passes_leaves_the_right_file(hub, shards, tmp_path, kind, settings):
    hub.fault(SHARD, kind, **settings)

    get(tmp_path / "d")

    assert visible(tmp_path / "d") == {name: shards[name] for name in FIRST_THREE}
    assert partials(tmp_path / "d") == []


@pytest.mark.parametrize(("kind", "settings"), PASSING)
def test_a_fault_after_a_cut_leaves_the_right_file(hub, shards, tmp_path, kind, settings):
    hub.fault(SHARD, "cut", at=2000)
    hub.fault(SHARD, kind, **settings)

    get(tmp_path / "d")

    assert visible(tmp_path / "d") == {name: shards[name] for name in FIRST_THREE}


@pytest.mark.parametrize(("kind", "settings"), PASSING)
def test_a_fault_that_stays_is_an_error_and_no_file(hub, shards, tmp_path, kind, settings):
    hub.fault(SHARD, kind, times=FOREVER, **settings)

    with pytest.raises(DownloadError) as caught:
        get(tmp_path / "d", workers=1)

    assert SHARD not in visible(tmp_path / "d")
    for part in (SHARD, REPO, "main"):
        assert part in caught.value.message


def test_a_file_that_stays_wrong_is_deleted(hub, shards, tmp_path):
    hub.fault(SHARD, "flip", times=FOREVER)

    with pytest.raises(DownloadError, match=r"the 9,024 that the hub lists \(sha256:.*4 times"):
        get(tmp_path / "d", shards=1)

    assert visible(tmp_path / "d") == {}
    assert partials(tmp_path / "d") == []
    assert len([r for r in hub.bodies(SHARD) if r.server == "store"]) == 4


def test_a_small_file_is_checked_by_its_git_hash(hub, shards, tmp_path):
    hub.fault("folder/small.json", "flip", at=1, times=FOREVER)

    with pytest.raises(DownloadError, match=r"\(git:"):
        get(tmp_path / "d", patterns=["folder/*"])

    assert visible(tmp_path / "d") == {}


def test_a_stalled_body_is_given_up_after_the_timeout_and_fetched_again(hub, shards, tmp_path):
    hub.fault(SHARD, "stall", at=500)

    get(tmp_path / "d", shards=1, retry=Retry(attempts=2, first_wait=0.01, timeout=0.2))

    assert visible(tmp_path / "d") == {SHARD: shards[SHARD]}


def test_retry_after_is_waited_for(hub, shards, tmp_path):
    hub.fault(SHARD, "status", status=429, headers={"Retry-After": "1"})
    started = time.monotonic()

    get(tmp_path / "d", shards=1)  # its own waits are of 0.02 s at most

    assert time.monotonic() - started >= 1.0


def test_a_wait_beyond_the_deadline_is_not_begun(hub, shards, tmp_path):
    hub.fault(SHARD, "status", status=503, headers={"Retry-After": "60"})

    with pytest.raises(DownloadError, match="no time is left before the deadline of 30 s"):
        get(tmp_path / "d", shards=1, retry=Retry(deadline=30.0))


def test_a_server_that_asks_for_an_hour_is_an_error(hub, shards, tmp_path):
    hub.fault(SHARD, "status", status=429, headers={"Retry-After": "3600"})

    with pytest.raises(DownloadError, match="it asks to wait 3600 s"):
        get(tmp_path / "d", shards=1)


@pytest.mark.parametrize("what", ["api:info", "api:tree"])
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_api_is_asked_again(hub, shards, tmp_path, what, status):
    hub.fault(what, "status", status=status, headers={"Retry-After": "0"})

    assert names(get(tmp_path / "d").fetched) == FIRST_THREE


@pytest.mark.parametrize(
    ("refusal", "message", "hint"),
    [
        ((403, "GatedRepo"), "access is gated", "accept its conditions at"),
        ((404, "RepoNotFound"), "no such dataset repository, or it is private", "hf auth login"),
        ((401, ""), "no such dataset repository, or it is private", "HF_TOKEN"),
        ((403, ""), "access was refused", "HF_TOKEN"),
        ((418, ""), "the hub answered 418", None),
    ],
)
def test_a_repository_that_is_refused_is_said_so(hub, shards, tmp_path, refusal, message, hint):
    hub.refusals[REPO] = refusal

    with pytest.raises(DownloadError, match=message) as caught:
        get(tmp_path / "d")

    assert REPO in caught.value.message
    assert (hint or "") in (caught.value.hint or "")
    assert not (tmp_path / "d").exists()


def test_a_revision_that_is_not_there_is_named(hub, shards, tmp_path):
    with pytest.raises(DownloadError, match="at revision v9: there is no such revision"):
        get(tmp_path / "d", revision="v9")


def test_a_file_gone_after_the_listing_is_an_error_at_once(hub, shards, tmp_path):
    get(tmp_path / "d", shards=1)
    hub.trees[REPO, hub.refs[REPO, "main"]].pop(FIRST_THREE[1])  # it is in our list still

    with pytest.raises(DownloadError, match=rf"{FIRST_THREE[1]} of .*: there is no such file"):
        get(tmp_path / "d", shards=2)

    assert len(hub.bodies(FIRST_THREE[1])) == 1


def test_no_secret_is_in_an_error(hub, shards, tmp_path):
    hub.fault(SHARD, "status", status=400, times=FOREVER, headers={"X-Error-Message": TOKEN})

    with pytest.raises(DownloadError) as caught:
        get(tmp_path / "d", shards=1)

    text = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))
    assert TOKEN not in text
    assert SIGNATURE not in text


@pytest.mark.parametrize(
    "name",
    [
        "../out.bin",
        "/etc/out.bin",
        "a//b.bin",
        "a/../../b.bin",
        "c:\\x.bin",
        ".tokenmill/hub/files/x.bin",
        "a\x1b[31m.bin",
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(hub, tmp_path, name):
    hub.commit("eve/evil", {name: llmc_shard(1)})

    with pytest.raises(DownloadError, match="not a safe name") as caught:
        get(tmp_path / "inner" / "d", "eve/evil", patterns=["*"])

    assert "\x1b" not in str(caught.value)
    assert hub.bodies() == []


def test_a_link_in_the_folder_is_not_followed(hub, tmp_path):
    hub.commit("ann/x", {"sub/x.bin": llmc_shard(1)})
    (tmp_path / "outside").mkdir()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "sub").symlink_to(tmp_path / "outside")

    with pytest.raises(DownloadError, match="symbolic link"):
        get(tmp_path / "d", "ann/x")

    assert list((tmp_path / "outside").iterdir()) == []


def test_plain_http_to_another_machine_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example")

    with pytest.raises(DownloadError, match=r"http://hub\.example is not https"):
        get(tmp_path / "d")


def test_a_full_disk_is_said_before_the_first_byte(hub, shards, tmp_path):
    with small_disk(tmp_path / "disk", 20_480) as disk:
        with pytest.raises(
            DownloadError, match=r"3 files of 27,072 bytes in all; .* has 20,480 free"
        ):
            get(disk.path / "d")

        assert hub.bodies() == []

        disk.resize(409_600)
        get(disk.path / "d")

        assert visible(disk.path / "d") == {name: shards[name] for name in FIRST_THREE}


def test_a_deadline_ends_even_a_line_that_moves(hub, shards, tmp_path):
    hub.fault(SHARD, "cut", at=1, times=FOREVER)
    patient = Retry(attempts=FOREVER, first_wait=0.01, longest_wait=0.01, deadline=0.5)

    with pytest.raises(DownloadError, match="deadline"):
        get(tmp_path / "d", shards=1, retry=patient)
