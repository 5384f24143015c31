"""Which places a command behind `countersign ask … --` may have: no shell, interpreter or wrapper
may read a value as code.
"""

from __future__ import annotations

import argparse
import shlex

import pytest

from countersign.cli import ask
from countersign.cli.ask import CommandTemplate, list_words_read_as_code
from countersign.cli.console import UsageError

REFUSED = r"""
su -c "echo {v}"
su -c {v}
su deploy -c {v}
runuser -u deploy -- {v}
ssh host "{v}"
ssh host "deploy {v}"
ssh host {v}
ssh host deploy {v}
gcloud compute ssh box --command={v}
env -S "{v}"
env -S{v}
env -S "sh -c" {v}
env -iS {v}
env --split-string={v}
env {v} date
env A=b {v}
python3 -c "print('{v}')"
python3 -c print({v})
python3.12 -c{v}
/usr/bin/python3 {v}
python3 -W ignore -c {v}
sh -ce {v}
sh -ec {v}
sh -c "echo {v}"
sh -c echo$IFS{v}
sh {v}
bash -c {v}
bash-5.2 -c {v}
bash -o pipefail -c {v}
bash -c -x {v}
bash --rcfile {v} x
zsh -fc {v}
csh -c {v}
fish --command={v}
find . -exec sh -c {v} ;
find . -exec sh -c "rm {v}" ;
find . -exec {v} ;
xargs sh -c {v}
xargs -n 1 bash -c {v}
xargs {v}
eval {v}
make VERSION={v}
make {v}
gmake -C x {v}
sudo -u deploy sh -c {v}
sudo {v}
sudo -s {v}
sudo -i deploy {v}
doas -s {v}
nohup bash -c {v}
timeout 5 sh -c {v}
busybox sh -c {v}
sh -c '"$@"' sh bash -c {v}
perl -e {v}
perl -e code {v}
perl -e{v}
perl -ne {v}
perl {v}
ruby -e {v}
node -e {v}
node --eval={v}
node --eval {v}
node -p {v}
php -r {v}
lua5.4 -e {v}
deno eval {v}
awk {v}
sed s/x/{v}/
watch {v}
parallel {v} ::: a
flock /tmp/x -c {v}
script -qc {v}
tar --to-command={v} -x
rsync -e {v} a b
rsync -ave {v} a b
git -c core.sshCommand={v} fetch
pwsh -Command {v}
POWERSHELL.EXE -c {v}
cmd /c {v}
docker exec app sh -c {v}
docker run --entrypoint {v} image
kubectl exec pod -- bash -lc {v}
npx -c {v}
psql -c {v}
mysql -e {v}
tmux new {v}
git rebase -x {v}
git submodule foreach {v}
git bisect run {v}
hyperfine {v}
mongosh --eval {v}
rg --pre {v} x
rg --pre={v} x
apt-get -o {v} update
heroku run {v}
man -P {v} ls
less +{v} x
octave --eval {v}
ansible-playbook -e {v} site.yml
clickhouse-client -q {v}
sqlcmd -Q {v}
./deploy.sh "to {v}"
./deploy.sh "a	{v}"
"""
ACCEPTED = r"""
rg {v} x
git checkout {v}
apt-get install {v}
./deploy.sh {v}
./deploy.sh --env={v} {v}
./deploy.sh -e {v} -c {v}
sh -c './deploy.sh "$1"' sh {v}
sh -c './deploy.sh "$1"' deploy {v}
sh ./deploy.sh {v}
bash -e ./deploy.sh {v}
bash -o pipefail -c './deploy.sh "$1"' sh {v}
python3 deploy.py {v}
python3 -m deploy {v}
python3 -c 'import sys; print(sys.argv)' {v}
python3 -W ignore deploy.py {v}
perl -e code -- {v}
perl deploy.pl {v}
node deploy.js {v}
docker run -e ENV={v} image {v}
docker exec app python manage.py migrate {v}
env A={v} ./deploy.sh {v}
sudo -u deploy ./deploy.sh {v}
nice -n {v} ./deploy.sh
timeout 5 ./deploy.sh {v}
kubectl set image deploy/app app={v}
helm upgrade app --set image.tag={v}
terraform apply -var version={v}
psql -v version={v} -f deploy.sql
find . -name {v}
find . -exec sh -c './check.sh "$1"' sh {v} ;
git checkout {v}
npm run deploy -- {v}
curl -d v={v} https://example.com
xargs ./deploy.sh {v}
rsync -av {v} host:/srv
flock /tmp/x ./deploy.sh {v}
"""


def read_commands(table: str) -> list[list[str]]:
    """The commands of a table, each as words."""
    return [shlex.split(each) for each in table.strip().splitlines()]


@pytest.mark.parametrize("words", read_commands(REFUSED), ids=shlex.join)
def test_a_value_that_would_be_read_as_code_is_refused(words: list[str]) -> None:
    """The error says how to pass the value, whether the program exists or not."""
    with pytest.raises(UsageError, match=r"pass it as an argument|must be fixed"):
        CommandTemplate(tuple(words)).validate({"v"})


@pytest.mark.parametrize("words", read_commands(ACCEPTED), ids=shlex.join)
def test_a_value_that_is_an_argument_is_accepted(words: list[str]) -> None:
    """Whatever else the command is."""
    assert list(list_words_read_as_code(words)) == []


def test_an_unsafe_template_is_accepted_on_demand() -> None:
    """The command and the names of values stay fixed."""
    words = ["sh", "-c", "echo {v}"]
    CommandTemplate(tuple(words), is_unsafe=True).validate({"v"})
    with pytest.raises(UsageError, match="not one of the values"):
        CommandTemplate(tuple(words), is_unsafe=True).validate({"w"})
    with pytest.raises(UsageError, match="must be fixed"):
        CommandTemplate(("{v}",), is_unsafe=True).validate({"v"})


def test_unsafe_template_needs_a_command() -> None:
    """An option without effect is refused."""
    parser = argparse.ArgumentParser()
    ask.add_arguments(parser)
    with pytest.raises(UsageError, match="--unsafe-template"):
        ask.run(parser.parse_args(["deploy", "v=1", "--unsafe-template"]))
