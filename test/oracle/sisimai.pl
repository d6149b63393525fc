#!/usr/bin/perl
# Reads bounces as files and prints what Sisimai makes of each recipient, one JSON object a line.
use strict;
use warnings;
use JSON::PP;
use Sisimai;
use Sisimai::Reason::UserUnknown;

my $json = JSON::PP->new->utf8->canonical;
for my $file (@ARGV) {
    my $found = eval { Sisimai->make($file) } or next;
    for my $one (@$found) {
        # "filtered" is an unknown user whom it does not dare to call so after DATA: its own words for one decide
        my $unknown = $one->reason eq 'filtered' && Sisimai::Reason::UserUnknown->match(lc $one->diagnosticcode);
        print $json->encode({
            file   => $file,
            code   => '' . $one->replycode,
            status => '' . $one->deliverystatus,
            text   => '' . $one->diagnosticcode,
            host   => '' . $one->rhost,
            reason => '' . $one->reason,
            bounce => $one->softbounce == -1 ? 'none' : $one->softbounce == 0 || $unknown ? 'hard' : 'soft',
        }), "\n";
    }
}
